"""Mail and control messages for contacts: accepted into the outbox, and queued again for another session.

A message is accepted with its plaintext sealed under the local storage key. `client/message_encryptor` encrypts it when
it is leased. Every method is called inside a transaction (SPEC 3.1, 3.4, 8.7).
"""

from typing import Final

from restante.client.contacts import Contact
from restante.client.message_encryptor import MessageEncryptor
from restante.client.outbox import Outbox
from restante.core.outbox_events import RetransmitRequested
from restante.model.errors import TooLarge
from restante.model.ids import MESSAGE_ID_BYTES, MessageId, mint_message_id
from restante.model.kinds import KIND_RULES, Kind
from restante.policy.capacity import Held
from restante.policy.padding import MAX_PLAINTEXT_BYTES, SMALL_SIZES_BYTES, padded_size_bytes
from restante.policy.ttl import resolve_ttl_s, transport_expiry_ms
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.outbox.new_entry import NewEntry
from restante.runtime.sqlite.session_store import SessionStore, StoredSession
from restante.wire.message_content import Content, content_size_bytes
from restante.wire.session_message import MAX_OPENING_BYTES, MIN_SESSION_MESSAGE_BYTES
from restante.wire.ttl_header import TtlHeader

MAX_CONTENT_BYTES: Final = MAX_PLAINTEXT_BYTES - MIN_SESSION_MESSAGE_BYTES - MAX_OPENING_BYTES
"""What still fits SPEC 2.8 as the first message of a session."""

_RETRANSMIT: Final = RetransmitRequested()


class OutgoingMessages:
    """One identity's mail to all its contacts."""

    def __init__(
        self,
        *,
        sessions: SessionStore,
        outbox: Outbox,
        encryptor: MessageEncryptor,
        entropy: Entropy,
    ) -> None:
        self._sessions = sessions
        self._outbox = outbox
        self._encryptor = encryptor
        self._entropy = entropy

    def write(
        self,
        to: Contact,
        body: bytes,
        *,
        kind: Kind,
        now_ms: int,
        ttl_s: int | None = None,
        message_id: MessageId | None = None,
    ) -> MessageId:
        """Accept one message. It is encrypted and numbered at its first lease, on an idle lane in this transaction.

        Raises `TooLarge`, `OutOfRange`, `OutboxFull`, or `RestanteError` if there is no session with the contact and
        its prekeys can't be used; nothing is stored then.
        """
        content = self._content(kind, body, ttl_s, now_ms)
        named = mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES)) if message_id is None else message_id
        content_bytes = _checked_size(content)
        self._encryptor.check_reachable(to, now_ms=now_ms)
        size_bytes = padded_size_bytes(MIN_SESSION_MESSAGE_BYTES + content_bytes)
        self._outbox.accept([self._new_entry(to, content, named, size_bytes=size_bytes, now_ms=now_ms)], now_ms=now_ms)
        return named

    def write_in(self, session: StoredSession, to: Contact, body: bytes, *, now_ms: int) -> None:
        """Accept a control message that is encrypted now, in this session: it asks for others or opens the session."""
        message_id = mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES))
        content = self._content(Kind.CONTROL, body, None, now_ms)
        encrypted = self._encryptor.encrypt_content(session, to, message_id, content)
        new = self._new_entry(to, content, message_id, size_bytes=_padded_size(content), now_ms=now_ms)
        self._outbox.accept(
            [
                new._replace(
                    payload=encrypted.payload,
                    payload_hash=encrypted.payload_hash,
                    session_tag=encrypted.session_tag,
                    sequence=encrypted.sequence,
                )
            ],
            now_ms=now_ms,
        )

    def has_control_space(self, to: Contact) -> bool:
        """Return whether the reserve takes another control message to this contact (SPEC 3.6)."""
        return self._outbox.store.has_space(to.route, to.control_lane, Held(1, SMALL_SIZES_BYTES[-1]))

    def reencrypt(self, message_id: MessageId, *, now_ms: int) -> None:
        """Let a message be encrypted again under its id when it is leased next, in the session that is current then; it
        is due at once (SPEC 3.4, 8.7).

        It gets no number before it leaves: a receipt for the old bytes may end it, and a long run of numbers under
        which nothing is sent would make what follows unreadable (SPEC 9.4).
        """
        self._sessions.mark_waiting(message_id)
        self._outbox.store.replace_payload(message_id, b"")
        self._outbox.store.apply(message_id, _RETRANSMIT, now_ms=now_ms)

    def _content(self, kind: Kind, body: bytes, ttl_s: int | None, now_ms: int) -> Content:
        rule = KIND_RULES[kind]
        header = TtlHeader(created_at_ms=now_ms, ttl_s=resolve_ttl_s(kind, ttl_s), ttl_type=rule.ttl_type)
        return Content(header=header, sequence=0, kind=kind, body=body)

    def _new_entry(
        self, to: Contact, content: Content, message_id: MessageId, *, size_bytes: int, now_ms: int
    ) -> NewEntry:
        kind, ttl_s, rule = content.kind, content.header.ttl_s, KIND_RULES[content.kind]
        lane = to.control_lane if kind is Kind.CONTROL else to.lane
        return NewEntry(
            message_id=message_id,
            size_bytes=size_bytes,
            route=self._outbox.store.lanes.route_of(lane, to.route),
            lane=lane,
            kind=kind,
            priority=rule.priority,
            created_at_ms=now_ms,
            ttl_s=ttl_s,
            queued_at_ms=now_ms,
            expires_at_ms=transport_expiry_ms(ttl_type=rule.ttl_type, created_at_ms=now_ms, ttl_s=ttl_s),
            next_attempt_at_ms=now_ms,
            payload=b"",
            sealed_plaintext=self._encryptor.seal_at_rest(content, message_id),
            relay=str(to.places.places[0]),
        )


def _padded_size(content: Content) -> int:
    return padded_size_bytes(MIN_SESSION_MESSAGE_BYTES + MAX_OPENING_BYTES + content_size_bytes(content))


def _checked_size(content: Content) -> int:
    """Return the size of the encoded content. Raises `TooLarge` with the one limit that holds for a body."""
    size_bytes, body_bytes = content_size_bytes(content), len(content.body)
    if size_bytes > MAX_CONTENT_BYTES:
        raise TooLarge("the message", size_bytes=body_bytes, limit_bytes=MAX_CONTENT_BYTES + body_bytes - size_bytes)
    return size_bytes
