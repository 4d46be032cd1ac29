"""Mail and control messages for contacts: accepted into the outbox, and encrypted again when a session is replaced.

A message is accepted with its plaintext sealed under the local storage key. `client/message_encryptor` encrypts it at
its first lease. Every method is called inside a transaction (SPEC 3.1, 3.4, 8.7).
"""

from typing import Final

from restante.client.contacts import Contact, ContactBook
from restante.client.message_encryptor import MessageEncryptor
from restante.client.outbox import Outbox
from restante.client.security_events import SecurityEvents
from restante.core.inbox_events import ResetReason
from restante.core.outbox_events import RetransmitRequested
from restante.core.session_reset import to_reseal
from restante.model.errors import RestanteError, TooLarge
from restante.model.ids import MESSAGE_ID_BYTES, Address, MessageId, SessionId, mint_message_id
from restante.model.journal import JournalKind
from restante.model.kinds import KIND_RULES, Kind
from restante.model.states import State
from restante.policy.padding import MAX_PLAINTEXT_BYTES, padded_size_bytes
from restante.policy.ttl import resolve_ttl_s, transport_expiry_ms
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.outbox.new_entry import NewEntry
from restante.runtime.sqlite.session_store import RetiredSessionMessage, SessionStore, StoredSession
from restante.wire.control_messages import SessionReset, encode_session_reset
from restante.wire.message_content import Content, encode_content
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
        contacts: ContactBook,
        sessions: SessionStore,
        outbox: Outbox,
        encryptor: MessageEncryptor,
        entropy: Entropy,
        security: SecurityEvents,
        journal: Journal,
    ) -> None:
        self._contacts = contacts
        self._sessions = sessions
        self._outbox = outbox
        self._encryptor = encryptor
        self._entropy = entropy
        self._security = security
        self._journal = journal

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
        lasting_s = resolve_ttl_s(kind, ttl_s)
        rule = KIND_RULES[kind]
        named = mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES)) if message_id is None else message_id
        header = TtlHeader(created_at_ms=now_ms, ttl_s=lasting_s, ttl_type=rule.ttl_type)
        content_bytes = _checked_size(header, kind, body)
        self._encryptor.check_reachable(to, now_ms=now_ms)
        content = Content(header=header, sequence=0, kind=kind, body=body)
        new = NewEntry(
            message_id=named,
            size_bytes=padded_size_bytes(MIN_SESSION_MESSAGE_BYTES + content_bytes),
            route=to.route,
            lane=to.control_lane if kind is Kind.CONTROL else to.lane,
            kind=kind,
            priority=rule.priority,
            created_at_ms=now_ms,
            ttl_s=lasting_s,
            queued_at_ms=now_ms,
            expires_at_ms=transport_expiry_ms(ttl_type=rule.ttl_type, created_at_ms=now_ms, ttl_s=lasting_s),
            next_attempt_at_ms=now_ms,
            payload=b"",
            sealed_plaintext=self._encryptor.seal_at_rest(content, named),
            relay=str(to.places.places[0]),
        )
        self._outbox.accept([new], now_ms=now_ms)
        return named

    def reset(self, peer: Address, old: SessionId, reason: ResetReason, *, now_ms: int) -> bool:
        """Replace session `old` by a new one (SPEC 8.7); return False if none can be opened now.

        If one was opened for this before and the peer has not answered in it yet, only the request is repeated.
        """
        contact = self._contacts.get(peer)
        if contact is None:
            return False
        current = self._sessions.current(peer)
        is_asked = current is not None and current.continues == old and current.opening is not None
        if not is_asked:
            try:
                session = self._encryptor.open_session(contact, continues=old, now_ms=now_ms)
            except RestanteError as problem:  # its prekeys are too old: nothing can be done until there are newer ones
                self._security.warn(problem.code, peer=peer, session_id=old, now_ms=now_ms)
                return False
            self._move_to(session, now_ms)
        self.retire_session(peer, old, now_ms=now_ms)
        # Re-encrypted messages come first: the peer should have the acks among them before it re-encrypts its own.
        self.reencrypt_retired_sessions(now_ms=now_ms)
        body = encode_session_reset(SessionReset(old=old, reason=reason))
        self.write(contact, body, kind=Kind.CONTROL, now_ms=now_ms)
        return True

    def adopt(self, session: StoredSession, *, now_ms: int) -> None:
        """Send in the session that the peer opened in place of ours from now on."""
        self._move_to(session, now_ms)

    def retire_session(self, peer: Address, session_id: SessionId, *, now_ms: int) -> None:
        """Send nothing more in this session: the peer does not read it any more."""
        session = self._sessions.find(peer, session_id)
        if session is not None and not session.is_left:
            self._sessions.leave(session, now_ms=now_ms)

    def reencrypt_retired_sessions(self, *, now_ms: int) -> int:
        """Re-encrypt, under the same ids, what is in flight for retired sessions; return how many must wait.

        A message that is being sent waits until that attempt has ended.
        """
        retired = self._sessions.stranded()
        for peer in dict.fromkeys(one.peer for one in retired):
            session = self._sessions.current(peer)
            contact = self._contacts.get(peer)
            if session is None or session.is_left or contact is None:
                continue
            theirs = (one for one in retired if one.peer == peer and one.state is not State.SENDING)
            for one in to_reseal(theirs, session=session.session_id):
                self._reencrypt(one, contact, now_ms)
        return sum(one.state is State.SENDING for one in retired)

    def reset_for(self, message_id: MessageId, *, now_ms: int) -> None:
        """Replace the session of a message that failed for good in it (SPEC 4.3); others were re-encrypted."""
        session = self._sessions.session_of(message_id)
        if session is not None and not session.is_left and self._outbox.store.load(message_id) is None:
            self.reset(session.peer, session.session_id, ResetReason.ASKED_FOR, now_ms=now_ms)

    def _move_to(self, session: StoredSession, now_ms: int) -> None:
        before = self._sessions.current(session.peer)
        if before is not None and before.session_id != session.session_id:
            self._sessions.leave(before, now_ms=now_ms)
        self._sessions.set_current(session)

    def _reencrypt(self, one: RetiredSessionMessage, contact: Contact, now_ms: int) -> None:
        entry = self._outbox.store.load(one.message_id)
        if entry is None:
            return
        self._sessions.give_up_number(one)
        encrypted = self._encryptor.encrypt_for(contact, entry, now_ms=now_ms)
        self._outbox.store.replace_payload(one.message_id, encrypted.payload, now_ms=now_ms)
        # Nodes and the recipient journal the hash of these bytes; without this event Spark could not join theirs.
        self._journal.append(
            JournalKind.REENCRYPTED,
            at_ms=now_ms,
            message_id=one.message_id,
            session_tag=encrypted.session_tag,
            sequence=encrypted.sequence,
            payload_hash=encrypted.payload_hash,
            size_bytes=len(encrypted.payload),
            message_kind=entry.kind,
            priority=entry.priority,
        )
        self._outbox.store.apply(one.message_id, _RETRANSMIT, now_ms=now_ms)


def _checked_size(header: TtlHeader, kind: Kind, body: bytes) -> int:
    """Return the size of the encoded content. Raises `TooLarge` with the one limit that holds for a body."""
    overhead = len(encode_content(Content(header=header, sequence=0, kind=kind, body=b"")))
    if overhead + len(body) > MAX_CONTENT_BYTES:
        raise TooLarge("the message", size_bytes=len(body), limit_bytes=MAX_CONTENT_BYTES - overhead)
    return overhead + len(body)
