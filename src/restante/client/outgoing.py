"""Messages on their way out: numbered, encrypted by their session, sealed and queued, all in one transaction.

Opens sessions, replaces those that broke, and seals anew what was in flight there (SPEC 8.2-8.4, 8.7). Every method is
called inside a transaction. The state of a session is changed only after everything that may refuse has not.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from restante.client.contacts import Contact, ContactBook
from restante.client.security_events import SecurityEvents
from restante.core.inbox_events import ResetReason
from restante.core.outbox_events import RetransmitRequested
from restante.core.session_messages import encrypt_message
from restante.core.session_reset import to_reseal
from restante.crypto.handshake import HANDSHAKE_ENTROPY_BYTES, Agreed, encapsulate, initiate
from restante.crypto.identity import Identity
from restante.crypto.journal_tags import session_tag
from restante.crypto.prekeys import choose_one_time
from restante.crypto.ratchet import ENCRYPT_ENTROPY_BYTES, RatchetState
from restante.crypto.sealing import seal
from restante.crypto.sender_tag import SenderTags
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.errors import RestanteError, TooLarge
from restante.model.ids import MESSAGE_ID_BYTES, Address, MessageId, SessionId, mint_message_id
from restante.model.journal import JournalKind
from restante.model.kinds import KIND_RULES, Kind
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State
from restante.policy.padding import MAX_PLAINTEXT_BYTES
from restante.policy.ttl import resolve_ttl_s, transport_expiry_ms
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.runtime.sqlite.session_store import RetiredSessionMessage, SessionStore, StoredSession
from restante.wire.control_messages import SessionReset, encode_session_reset
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.message_content import Content, decode_content, encode_content
from restante.wire.session_message import MAX_OPENING_BYTES, MIN_SESSION_MESSAGE_BYTES
from restante.wire.ttl_header import TtlHeader

MAX_CONTENT_BYTES: Final = MAX_PLAINTEXT_BYTES - MIN_SESSION_MESSAGE_BYTES - MAX_OPENING_BYTES
"""What still fits SPEC 2.8 when it has to be sealed anew as the first message of another session."""

NO_ONE_TIME_PREKEY: Final = "no_one_time_prekey"
"""The first message of a session is only as safe as the signed prekey is young: both sides say so."""

FIRST_GENERATION: Final = 1
_WANTED_AGAIN: Final = RetransmitRequested()


class OutgoingMessages:
    """One identity's side of all its sessions, as a writer."""

    def __init__(
        self,
        identity: Identity,
        *,
        contacts: ContactBook,
        sessions: SessionStore,
        outbox: SqliteOutbox,
        seal: StorageSeal,
        entropy: Entropy,
        security: SecurityEvents,
        journal: Journal,
    ) -> None:
        self._identity = identity
        self._tags = SenderTags(identity)
        self._contacts = contacts
        self._sessions = sessions
        self._outbox = outbox
        self._seal = seal
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
        """Accept one message; ratchet, number and outbox row become durable together (SPEC 3.2, 8.2)."""
        life_s = resolve_ttl_s(kind, ttl_s)
        rule = KIND_RULES[kind]
        named = mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES)) if message_id is None else message_id
        header = TtlHeader(created_at_ms=now_ms, ttl_s=life_s, ttl_type=rule.ttl_type)
        _refuse_if_too_large(header, kind, body)
        session = self._session_with(to, now_ms)
        expires_at_ms = transport_expiry_ms(ttl_type=rule.ttl_type, created_at_ms=now_ms, ttl_s=life_s)
        content = Content(header=header, sequence=session.next_sequence, kind=kind, body=body)
        plaintext = encode_content(content)
        ratchet, sealed = self._encrypted(session, to, named, plaintext)
        nonce = self._entropy.draw(NONCE_BYTES)
        self._outbox.accept(
            OutboxEntry(
                message_id=named,
                route=Route.RELAY,
                lane=to.control_lane if kind is Kind.CONTROL else to.lane,
                kind=kind,
                payload=sealed,
                sealed_plaintext=self._seal.seal(plaintext, nonce=nonce, context=named),
                priority=rule.priority,
                created_at_ms=now_ms,
                queued_at_ms=now_ms,
                ttl_s=life_s,
                expires_at_ms=expires_at_ms,
                next_attempt_at_ms=now_ms,
            ),
            payload_hash=hash_sealed_bytes(sealed),
            session_tag=session_tag(self._identity.tag_secret, session.session_id),
            sequence=session.next_sequence,
            now_ms=now_ms,
        )
        self._sessions.advance(session, ratchet)
        self._sessions.take_number(session, named)
        return named

    def reset(self, peer: Address, old: SessionId, reason: ResetReason, *, now_ms: int) -> bool:
        """Go on in a new session that takes the place of `old` (SPEC 8.7); False when none can be opened now.

        When one was opened for this before and nobody has answered in it yet, its peer is told once more.
        """
        contact = self._contacts.get(peer)
        if contact is None:
            return False
        current = self._sessions.current(peer)
        is_asked = current is not None and current.continues == old and current.opening is not None
        if not is_asked:
            try:
                agreed = self._agree(contact, continues=old, now_ms=now_ms)
            except RestanteError as problem:  # its bundle is too old: nothing can be done until there is another
                self._security.warn(problem.code, peer=peer, session_id=old, now_ms=now_ms)
                return False
            self._move_to(self._add(agreed, peer, now_ms), now_ms)
        self.retire_session(peer, old, now_ms=now_ms)
        # What is sealed anew comes first: receipts among it, which the peer should have before it seals anew itself.
        self.reencrypt_retired_sessions(now_ms=now_ms)
        body = encode_session_reset(SessionReset(old=old, reason=reason))
        self.write(contact, body, kind=Kind.CONTROL, now_ms=now_ms)
        return True

    def adopt(self, session: StoredSession, *, now_ms: int) -> None:
        """Write in the session that the peer began in place of ours; what is stranded is to be sealed anew."""
        self._move_to(session, now_ms)

    def retire_session(self, peer: Address, session_id: SessionId, *, now_ms: int) -> None:
        """The peer does not read this session any more, whether we write in it or once did."""
        session = self._sessions.find(peer, session_id)
        if session is not None and not session.is_left:
            self._sessions.leave(session, now_ms=now_ms)

    def reencrypt_retired_sessions(self, *, now_ms: int) -> int:
        """Seal anew, under the same ids, what is in flight for sessions that were left; how much has to wait.

        What is being sent this moment waits until that try has ended.
        """
        stranded = self._sessions.stranded()
        for peer in dict.fromkeys(one.peer for one in stranded):
            session = self._sessions.current(peer)
            contact = self._contacts.get(peer)
            if session is None or session.is_left or contact is None:
                continue
            theirs = (one for one in stranded if one.peer == peer and one.state is not State.SENDING)
            for one in to_reseal(theirs, session=session.session_id):
                self._reseal(one, session, contact, now_ms)
        return sum(one.state is State.SENDING for one in stranded)

    def reset_for(self, message_id: MessageId, *, now_ms: int) -> None:
        """The network says that the session of a message it ended is broken (SPEC 4.3); others were sealed anew."""
        session = self._sessions.session_of(message_id)
        if session is not None and not session.is_left and self._outbox.load(message_id) is None:
            self.reset(session.peer, session.session_id, ResetReason.ASKED_FOR, now_ms=now_ms)

    def _session_with(self, contact: Contact, now_ms: int) -> StoredSession:
        current = self._sessions.current(contact.address)
        if current is not None:
            return current
        session = self._add(self._agree(contact, continues=None, now_ms=now_ms), contact.address, now_ms)
        self._sessions.set_current(session)
        return session

    def _move_to(self, session: StoredSession, now_ms: int) -> None:
        before = self._sessions.current(session.peer)
        if before is not None and before.session_id != session.session_id:
            self._sessions.leave(before, now_ms=now_ms)
        self._sessions.set_current(session)

    def _agree(self, contact: Contact, *, continues: SessionId | None, now_ms: int) -> Agreed:
        bundle = contact.usable_bundle(now_ms=now_ms)
        spent = self._sessions.spent(contact.address)
        left = tuple(one for one in bundle.one_time if one.prekey_id not in spent)
        dice = int.from_bytes(self._entropy.draw(4), "big")
        return initiate(
            self._identity,
            bundle,
            one_time=choose_one_time(replace(bundle, one_time=left), dice),
            encapsulation=encapsulate(bundle),
            entropy=self._entropy.draw(HANDSHAKE_ENTROPY_BYTES),
            generation=FIRST_GENERATION,
            continues=continues,
        )

    def _add(self, agreed: Agreed, peer: Address, now_ms: int) -> StoredSession:
        used = agreed.opening.one_time_id
        if used is None:
            self._security.warn(NO_ONE_TIME_PREKEY, peer=peer, session_id=agreed.session_id, now_ms=now_ms)
        else:
            self._sessions.spend(peer, used)
        return self._sessions.add(agreed, peer, now_ms=now_ms)

    def _encrypted(
        self,
        session: StoredSession,
        to: Contact,
        message_id: MessageId,
        plaintext: bytes,
    ) -> tuple[RatchetState, bytes]:
        """Return the ratchet after this message, and the message's sealed bytes."""
        ratchet, padded = encrypt_message(
            session.ratchet,
            plaintext,
            writer=self._identity.address,
            session_id=session.session_id,
            message_id=message_id,
            generation=FIRST_GENERATION,
            opening=session.opening,
            make_tag=partial(self._tags.make, recipient=to.card),
            entropy=self._entropy.draw(ENCRYPT_ENTROPY_BYTES),
        )
        return ratchet, seal(padded, to.card)

    def _reseal(self, one: RetiredSessionMessage, session: StoredSession, contact: Contact, now_ms: int) -> None:
        entry = self._outbox.load(one.message_id)
        if entry is None:
            return
        kept = decode_content(self._seal.unseal(entry.sealed_plaintext, context=one.message_id))
        plaintext = encode_content(kept._replace(sequence=session.next_sequence))
        ratchet, sealed = self._encrypted(session, contact, one.message_id, plaintext)
        self._outbox.replace_payload(one.message_id, sealed, now_ms=now_ms)
        # Nodes and the recipient journal the hash of these bytes; without this event Spark could not join theirs.
        self._journal.append(
            JournalKind.REENCRYPTED,
            at_ms=now_ms,
            message_id=one.message_id,
            session_tag=session_tag(self._identity.tag_secret, session.session_id),
            sequence=session.next_sequence,
            payload_hash=hash_sealed_bytes(sealed),
            size_bytes=len(sealed),
            message_kind=entry.kind,
            priority=entry.priority,
        )
        self._outbox.apply(one.message_id, _WANTED_AGAIN, now_ms=now_ms)
        self._sessions.give_up_number(one)
        self._sessions.advance(session, ratchet)
        self._sessions.take_number(session, one.message_id)


def _refuse_if_too_large(header: TtlHeader, kind: Kind, body: bytes) -> None:
    """Raise `TooLarge` with the one limit that holds for a body, whichever layer would refuse it first."""
    overhead = len(encode_content(Content(header=header, sequence=0, kind=kind, body=b"")))
    if overhead + len(body) > MAX_CONTENT_BYTES:
        raise TooLarge("the message", size_bytes=len(body), limit_bytes=MAX_CONTENT_BYTES - overhead)
