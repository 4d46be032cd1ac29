"""Receives messages: deduplicates, decrypts, orders and stores a batch in one transaction (SPEC 9).

A message that can't be decrypted changes nothing and is journaled (SPEC 8.2). Control messages are acted on in the
transaction that brings them: receipts, retransmit requests, resets (SPEC 8.7, 9.5, 10).
"""

from collections.abc import Sequence
from typing import Final

from restante.client.ack_sender import AckSender
from restante.client.contacts import ContactBook
from restante.client.introductions.requests import Requests
from restante.client.message_encryptor import NO_ONE_TIME_PREKEY
from restante.client.outgoing import OutgoingMessages
from restante.client.security_events import SecurityEvents
from restante.core.decrypted_messages import DecryptedMessage
from restante.core.deduplication import UnsealedHeader
from restante.core.inbox_events import AskReset, RequestRetransmit, ResetReason
from restante.core.outbox_events import ReadAcked, ReceiptAcked, RetransmitRequested
from restante.core.retransmit import plan_retransmit
from restante.core.session_messages import (
    Accepted,
    UnsealedMessage,
    accept_session,
    decrypt_message,
    session_to_send_in,
    unseal_envelopes,
)
from restante.core.session_reset import Move, Standing, on_reset
from restante.core.signed_acks import verify_receipts
from restante.crypto.identity import Identity
from restante.crypto.ratchet import GapTooLarge, MessageKeyGone, RatchetState
from restante.crypto.sender_tag import SenderTags
from restante.model.error_codes import Code
from restante.model.errors import RestanteError, StoreUnusable
from restante.model.ids import Address, SessionId
from restante.model.kinds import Kind
from restante.model.states import Verdict
from restante.policy.reorder_limits import OrderLimits
from restante.ports.relay_connection import StoredBlob
from restante.runtime.sqlite.access_secrets import AccessSecrets
from restante.runtime.sqlite.inbox.batch import ReceiveBatch
from restante.runtime.sqlite.inbox.results import Asked, ReceiveResult, Released
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.runtime.sqlite.session_store import SessionStore, StoredSession
from restante.wire.acks import AckType, BatchAck
from restante.wire.control_messages import (
    AccessSecret,
    RetransmitRequest,
    SessionReset,
    decode_control,
    encode_retransmit_request,
)
from restante.wire.message_content import decode_content

INVALID_TAG: Final = "invalid_sender_tag"
"""The bytes only claim to be of this sender (SPEC 8.11)."""
FOREIGN_ACK: Final = "foreign_ack"
"""Security event: a contact acknowledged a message that was not sent to it."""
_ACK_TYPES: Final = frozenset({AckType.RECEIPT, AckType.READ})
_MOVES_ON: Final = frozenset({Verdict.NEW, Verdict.DUPLICATE, Verdict.COLLISION})
"""Verdicts on which the sequence number, and so the key, of a message is used up."""

Unsealed = tuple[StoredBlob, UnsealedMessage | RestanteError]


class IncomingMessages:
    """One identity's receiving side of all its sessions."""

    def __init__(
        self,
        identity: Identity,
        *,
        tags: SenderTags,
        contacts: ContactBook,
        sessions: SessionStore,
        outgoing: OutgoingMessages,
        ack_sender: AckSender,
        outbox: SqliteOutbox,
        access: AccessSecrets,
        requests: Requests,
        security: SecurityEvents,
        limits: OrderLimits,
    ) -> None:
        self._identity = identity
        self._tags = tags
        self._contacts = contacts
        self._sessions = sessions
        self._outgoing = outgoing
        self._ack_sender = ack_sender
        self._outbox = outbox
        self._access = access
        self._requests = requests
        self._security = security
        self._limits = limits
        self._asked_at_ms: dict[Address, int] = {}
        self._has_stranded = False

    def unseal(self, blobs: Sequence[StoredBlob]) -> list[Unsealed]:
        """Unseal the envelopes. This is the expensive step; it needs no transaction."""
        opened = unseal_envelopes([blob.envelope for blob in blobs], reader=self._identity)
        return list(zip(blobs, opened, strict=True))

    def receive(self, arrivals: Sequence[Unsealed], batch: ReceiveBatch, *, now_ms: int) -> None:
        """Classify, decrypt and store all arrivals, each as if it were alone. Called inside one transaction (9.3)."""
        messages = [arrival.message for _, arrival in arrivals if isinstance(arrival, UnsealedMessage)]
        batch.expect((message.sender, message.message_id) for message in messages)
        for blob, arrival in arrivals:
            if isinstance(arrival, UnsealedMessage):
                self._take_in(arrival, batch, blob, now_ms=now_ms)
            else:
                self._security.suspect(arrival.code, now_ms=now_ms, size_bytes=len(blob.envelope))
        if self._has_stranded:
            # After all arrivals: receipts among them end messages that need not be re-encrypted.
            self._has_stranded = False
            self._outgoing.reencrypt_retired_sessions(now_ms=now_ms)

    def apply_results(self, arrival: ReceiveResult, *, now_ms: int) -> None:
        """Act on released control messages, and request what is missing."""
        for control in arrival.control:
            try:
                self._obey(control, now_ms)
            except StoreUnusable:
                raise
            except RestanteError as problem:
                self._security.suspect(problem.code, now_ms=now_ms)
        for asked in arrival.asks:
            try:
                self._ask(asked, now_ms)
            except StoreUnusable:
                raise
            except RestanteError as problem:  # the outbox is full: the arrivals are stored nevertheless
                self._security.warn(problem.code, peer=asked.sender, session_id=asked.session_id, now_ms=now_ms)

    def _take_in(self, arrival: UnsealedMessage, batch: ReceiveBatch, blob: StoredBlob, *, now_ms: int) -> None:
        message = arrival.message
        outside = UnsealedHeader(
            message.sender, message.session_id, message.message_id, arrival.payload_hash, arrival.envelope_bytes
        )
        contact = self._contacts.get(message.sender)
        if contact is None:
            # A receipt follows when the user has accepted the sender: we have no keys of it yet.
            self._requests.keep(arrival, outside, blob, now_ms=now_ms)
            return
        if not self._tags.is_valid(arrival.tag, arrival.tagged, sender=contact.card):
            self._security.suspect(INVALID_TAG, now_ms=now_ms, outside=outside)
            return
        if batch.record_if_known(outside) is not None:
            return
        session = self._sessions.find(message.sender, message.session_id)
        ratchet: RatchetState | None
        try:
            if session is None:
                accepted = accept_session(
                    message, reader=self._identity, prekeys=self._sessions.prekeys(), now_ms=now_ms
                )
                opened = _opened(arrival, accepted.plaintext)
                session = self._begin(accepted, batch, now_ms)
                ratchet = None  # stored by `_begin`, and it may have sent since
            else:
                ratchet, plaintext = decrypt_message(session.ratchet, message, now_ms=now_ms)
                opened = _opened(arrival, plaintext)
        except MessageKeyGone:
            batch.replayed(outside)
        except GapTooLarge:
            self.apply_results(
                batch.fail_session(message.sender, message.session_id, ResetReason.GAP_TOO_WIDE), now_ms=now_ms
            )
        except RestanteError as problem:
            self._security.suspect(problem.code, now_ms=now_ms, outside=outside)
            if session is None and problem.code is Code.SESSION_INVALID:
                self._ask_for_another(message.sender, message.session_id, now_ms)
        else:
            taken = batch.receive(opened, server_timestamp_ms=blob.stored_at_ms)
            if ratchet is not None and taken.verdict in _MOVES_ON:
                self._move_on(session, ratchet, batch, now_ms)
            if taken.control or taken.asks:
                self.apply_results(taken, now_ms=now_ms)

    def _begin(self, accepted: Accepted, batch: ReceiveBatch, now_ms: int) -> StoredSession:
        """Store a session that a peer opened, delete its prekey, and decide whether to send in it from now on."""
        agreed = accepted.agreed
        peer = agreed.peer.address
        self._sessions.keep_prekeys(accepted.prekeys)
        session = self._sessions.add(agreed, peer, now_ms=now_ms)
        if not agreed.has_one_time_prekey:
            self._security.warn(NO_ONE_TIME_PREKEY, peer=peer, session_id=session.session_id, now_ms=now_ms)
        current = self._sessions.current(peer)
        old = session.continues
        if old is not None:
            self.apply_results(batch.continue_session(peer, old=old, new=session.session_id), now_ms=now_ms)
        if current is None:
            self._sessions.set_current(session)
        elif old is None:
            if session_to_send_in(current.session_id, session.session_id) == session.session_id:
                self._sessions.set_current(session)
        else:
            standing = Standing(current=current.session_id, replaced=current.continues if current.is_ours else None)
            if on_reset(standing, old=old, new=session.session_id) is Move.ADOPT:
                self._outgoing.adopt(session, now_ms=now_ms)
        if old is not None:
            self._outgoing.retire_session(peer, old, now_ms=now_ms)
            self._has_stranded = True
        return session

    def _move_on(self, session: StoredSession, ratchet: RatchetState, batch: ReceiveBatch, now_ms: int) -> None:
        """Advance the ratchet past a stored message. The first answer closes the session that this one replaces."""
        is_first_answer = session.opening is not None
        self._sessions.advance(session, ratchet)
        if is_first_answer and session.continues is not None:
            old = batch.continue_session(session.peer, old=session.continues, new=session.session_id)
            self.apply_results(old, now_ms=now_ms)

    def _obey(self, control: Released, now_ms: int) -> None:
        body = control.body
        if body[:1] and body[0] in _ACK_TYPES:
            batch = verify_receipts(body, reader=control.sender, writer=self._identity.address)
            self._acknowledge(batch, control.sender, now_ms)
            return
        said = decode_control(body)
        match said:
            case RetransmitRequest():
                self._send_again(said, control.sender, now_ms)
            case AccessSecret():
                self._access.keep(control.sender, said.secret)
            case SessionReset():
                pass  # the opening of its session stated this already, bound to its keys

    def _acknowledge(self, batch: BatchAck, reader: Address, now_ms: int) -> None:
        """Apply acks only to messages that were sent to `reader`: others may have learned an id."""
        event = ReadAcked() if batch.type is AckType.READ else ReceiptAcked()
        readers = {message_id: self._sessions.reader_of(message_id) for message_id in batch.message_ids}
        for message_id, known in readers.items():
            if known == reader:
                self._outbox.apply(message_id, event, now_ms=now_ms)
        if set(readers.values()) - {reader, None}:
            self._security.suspect(FOREIGN_ACK, now_ms=now_ms)

    def _send_again(self, request: RetransmitRequest, peer: Address, now_ms: int) -> None:
        session = self._sessions.find(peer, request.session_id)
        if session is None:
            return
        held = self._sessions.held(session, request.first, request.last)
        for message_id in plan_retransmit(request, held, now_ms=now_ms).resend:
            self._outbox.apply(message_id, RetransmitRequested(), now_ms=now_ms)

    def _ask(self, asked: Asked, now_ms: int) -> None:
        contact = self._contacts.get(asked.sender)
        match asked.what:
            case RequestRetransmit(first, last) if contact is not None:
                request = RetransmitRequest(session_id=asked.session_id, first=first, last=last)
                self._outgoing.write(contact, encode_retransmit_request(request), kind=Kind.CONTROL, now_ms=now_ms)
            case AskReset(reason):
                self._ack_sender.queue_all_for(asked.sender, now_ms=now_ms)
                self._outgoing.reset(asked.sender, asked.session_id, reason, now_ms=now_ms)

    def _ask_for_another(self, peer: Address, session_id: SessionId, now_ms: int) -> None:
        """Replace a session that is unknown or whose prekey is gone, at most once an interval: anybody can claim it."""
        asked_at_ms = self._asked_at_ms.get(peer)
        if asked_at_ms is not None and now_ms < asked_at_ms + self._limits.gap_timeout_ms:
            return
        self._asked_at_ms[peer] = now_ms
        self._outgoing.reset(peer, session_id, ResetReason.UNREADABLE, now_ms=now_ms)


def _opened(arrival: UnsealedMessage, plaintext: bytes) -> DecryptedMessage:
    content, message = decode_content(plaintext), arrival.message
    return DecryptedMessage(
        content.header,
        message.message_id,
        message.sender,
        message.session_id,
        content.sequence,
        content.kind,
        content.body,
        arrival.payload_hash,
        arrival.envelope_bytes,
    )
