"""Receives messages: core/receiving decides on each arrival, and this module executes what needs keys (SPEC 8, 9).

A batch is one transaction. Control messages are acted on in it: receipts, retransmit requests, CANNOT_READ and LOST.
Nothing is remembered between two calls.
"""

from collections.abc import Sequence
from typing import Final

from restante.client.contacts import Contact, ContactBook
from restante.client.introductions.requests import Requests
from restante.client.message_encryptor import NO_ONE_TIME_PREKEY
from restante.client.outgoing import OutgoingMessages
from restante.client.security_events import SecurityEvents
from restante.client.sessions.prekey_renewal import PrekeyRenewal
from restante.client.sessions.recovery import SessionRecovery
from restante.core.decrypted_messages import DecryptedMessage
from restante.core.deduplication import UnsealedHeader
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.outbox_events import ReadAcked, ReceiptAcked, RetransmitRequested
from restante.core.peer_session_events import CannotReadReceived, LostReceived
from restante.core.receiving import CannotDecrypt
from restante.core.retransmit import plan_retransmit
from restante.core.session_messages import (
    Accepted,
    UnsealedMessage,
    accept_session,
    decrypt_message,
    unseal_envelopes,
)
from restante.core.signed_acks import verify_receipts
from restante.crypto.identity import Identity
from restante.crypto.ratchet import MessageKeyGone, RatchetState
from restante.crypto.sender_tag import SenderTags
from restante.model.error_codes import Code
from restante.model.errors import OutboxFull, RestanteError, StoreUnusable
from restante.model.ids import Address, PayloadHash
from restante.model.kinds import Kind
from restante.model.states import Verdict
from restante.policy.reorder_limits import MAX_UNRECEIPTED_AT_SWITCH
from restante.ports.relay_connection import StoredBlob
from restante.runtime.sqlite.access_secrets import AccessSecrets
from restante.runtime.sqlite.inbox.batch import ReceiveBatch
from restante.runtime.sqlite.inbox.results import Asked
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.runtime.sqlite.own_access import OwnAccess
from restante.runtime.sqlite.session_store import SessionStore, StoredSession
from restante.wire.acks import AckType, BatchAck
from restante.wire.control_messages import (
    AccessSecret,
    CannotReadMessage,
    KeysMessage,
    LostMessage,
    RetransmitRequest,
    decode_control,
    encode_retransmit_request,
)
from restante.wire.message_content import decode_content

INVALID_TAG: Final = "invalid_sender_tag"
"""The bytes only claim to be of this sender (SPEC 8.11)."""
FOREIGN_ACK: Final = "foreign_ack"
"""Security event: a contact acknowledged a message that was not sent to it."""
_ACK_TYPES: Final = frozenset({AckType.RECEIPT, AckType.READ})

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
        recovery: SessionRecovery,
        renewal: PrekeyRenewal,
        outbox: SqliteOutbox,
        access: AccessSecrets,
        own_access: OwnAccess,
        requests: Requests,
        security: SecurityEvents,
    ) -> None:
        self._identity = identity
        self._tags = tags
        self._contacts = contacts
        self._sessions = sessions
        self._outgoing = outgoing
        self._recovery = recovery
        self._renewal = renewal
        self._outbox = outbox
        self._access = access
        self._own_access = own_access
        self._requests = requests
        self._security = security

    def unseal(self, blobs: Sequence[StoredBlob]) -> list[Unsealed]:
        """Unseal the envelopes. This is the expensive step; it needs no transaction."""
        opened = unseal_envelopes([blob.envelope for blob in blobs], recipient=self._identity)
        return list(zip(blobs, opened, strict=True))

    def receive(
        self, arrivals: Sequence[Unsealed], batch: ReceiveBatch, *, inbox: OwnInbox | None, now_ms: int
    ) -> set[PayloadHash]:
        """Receive all arrivals, each as if it were alone; return those that are new.

        `inbox` is the one they came by, if that is known. Called inside one transaction (SPEC 9.3).
        """
        came_by = None if inbox is None else inbox.access_secret == self._own_access.current.secret
        new: set[PayloadHash] = set()
        messages = [arrival.message for _, arrival in arrivals if isinstance(arrival, UnsealedMessage)]
        batch.expect((message.sender, message.message_id) for message in messages)
        for blob, arrival in arrivals:
            if isinstance(arrival, UnsealedMessage):
                if self._receive(arrival, batch, blob, is_in_contacts_inbox=came_by, now_ms=now_ms) is Verdict.NEW:
                    new.add(arrival.payload_hash)
            else:
                self._security.suspect(arrival.code, now_ms=now_ms, size_bytes=len(blob.envelope))
        # After all arrivals: one question names everything unreadable, and receipts end messages that are then not
        # encrypted again.
        self._recovery.ask_due(now_ms=now_ms)
        self._recovery.reencrypt_wanted(now_ms=now_ms)
        self._use_contacts_inboxes()
        return new

    def _use_contacts_inboxes(self) -> None:
        """Switch to the contacts inbox of those who have read nearly all we sent.

        The recipient reads both inboxes at once. With a long backlog in the public one, it would get mail of the other
        too far ahead of what it has read.
        """
        for peer in self._access.unused():
            contact = self._contacts.get(peer)
            if contact is not None and self._outbox.lanes.held_for(contact.lane) <= MAX_UNRECEIPTED_AT_SWITCH:
                self._access.use(peer)

    def request_again(self, asks: Sequence[Asked], *, now_ms: int) -> None:
        """Request missing messages from their senders. With a full reserve the request is dropped, visibly: the next
        gap asks again."""
        for asked in asks:
            contact = self._contacts.get(asked.sender)
            if contact is None:
                continue
            request = RetransmitRequest(session_id=asked.session_id, first=asked.what.first, last=asked.what.last)
            try:
                self._outgoing.write(contact, encode_retransmit_request(request), kind=Kind.CONTROL, now_ms=now_ms)
            except OutboxFull as problem:
                self._security.warn(problem.code, peer=asked.sender, session_id=asked.session_id, now_ms=now_ms)

    def _receive(
        self,
        arrival: UnsealedMessage,
        batch: ReceiveBatch,
        blob: StoredBlob,
        *,
        is_in_contacts_inbox: bool | None,
        now_ms: int,
    ) -> Verdict | None:
        message = arrival.message
        header = UnsealedHeader(
            message.sender, message.session_id, message.message_id, arrival.payload_hash, arrival.envelope_bytes
        )
        contact = self._contacts.get(message.sender)
        if contact is None:
            # A receipt follows when the user has accepted the sender: we have no keys of it yet.
            self._requests.keep(arrival, header, blob, now_ms=now_ms)
            return None
        if not self._tags.is_valid(arrival.tag, arrival.tagged, sender=contact.card):
            self._security.suspect(INVALID_TAG, now_ms=now_ms, outside=header)
            return None
        decryption = _Decryption(arrival, self._sessions, self._identity, now_ms)
        result = batch.receive(
            header,
            decrypt=decryption.decrypt,
            server_timestamp_ms=blob.stored_at_ms,
            peer=self._sessions.peer(message.sender),
            generation=message.generation,
            has_opening=message.opening is not None,
        )
        if result.is_read:
            self._advance(decryption, contact, now_ms)
            if is_in_contacts_inbox is not None:
                self._access.note_arrival(message.sender, is_in_contacts_inbox=is_in_contacts_inbox)
        self._recovery.store(message.sender, result.peer, result.peer_effects, now_ms=now_ms)
        if result.control is not None:
            self._act_on(result.control, message.generation, now_ms)
        if result.asks:
            self.request_again(result.asks, now_ms=now_ms)
        return result.verdict

    def _advance(self, decryption: "_Decryption", contact: Contact, now_ms: int) -> None:
        """Store the ratchet after a message; of a new session, also store it and delete the prekey it used."""
        if decryption.session is not None and decryption.ratchet is not None:
            self._sessions.advance(decryption.session, decryption.ratchet)
        elif decryption.accepted is not None:
            accepted = decryption.accepted
            if accepted.prekeys is not self._sessions.prekeys():
                self._sessions.store_prekeys(accepted.prekeys)
            session = self._sessions.add(accepted.agreed, contact.address, now_ms=now_ms)
            if not accepted.agreed.has_one_time_prekey:
                self._security.warn(
                    NO_ONE_TIME_PREKEY, peer=contact.address, session_id=session.session_id, now_ms=now_ms
                )

    def _act_on(self, control: DecryptedMessage, generation: int, now_ms: int) -> None:
        try:
            self._obey(control, generation, now_ms)
        except StoreUnusable:
            raise
        except RestanteError as problem:
            self._security.suspect(problem.code, now_ms=now_ms)

    def _obey(self, control: DecryptedMessage, generation: int, now_ms: int) -> None:
        body, sender = control.body, control.sender
        if body[:1] and body[0] in _ACK_TYPES:
            batch = verify_receipts(body, recipient=sender, sender=self._identity.address)
            self._acknowledge(batch, sender, now_ms)
            return
        message = decode_control(body)
        match message:
            case RetransmitRequest():
                self._send_again(message, sender, now_ms)
            case CannotReadMessage(hashes):
                named = CannotReadReceived(frozenset(hashes), self._sessions.owed(sender))
                self._recovery.apply(sender, named, now_ms=now_ms)
            case LostMessage():
                lost = LostReceived(control.session_id, generation, self._sessions.owed(sender))
                self._recovery.apply(sender, lost, now_ms=now_ms)
            case KeysMessage(published):
                self._renewal.receive(sender, published, now_ms=now_ms)
            case AccessSecret():
                self._access.keep(sender, message.secret, stated_at_ms=message.stated_at_ms, now_ms=now_ms)

    def _acknowledge(self, batch: BatchAck, recipient: Address, now_ms: int) -> None:
        """Apply acks only to messages that were sent to `recipient`: others may have learned an id."""
        event = ReadAcked() if batch.type is AckType.READ else ReceiptAcked()
        recipients = {message_id: self._sessions.recipient_of(message_id) for message_id in batch.message_ids}
        for message_id, known in recipients.items():
            if known == recipient:
                self._outbox.apply(message_id, event, now_ms=now_ms)
        if set(recipients.values()) - {recipient, None}:
            self._security.suspect(FOREIGN_ACK, now_ms=now_ms)

    def _send_again(self, request: RetransmitRequest, peer: Address, now_ms: int) -> None:
        session = self._sessions.find(peer, request.session_id)
        if session is None:
            return
        held = self._sessions.held(session, request.first, request.last)
        for message_id in plan_retransmit(request, held, now_ms=now_ms).resend:
            self._outbox.apply(message_id, RetransmitRequested(), now_ms=now_ms)


class _Decryption:
    """One attempt to decrypt an arrival; what it produced is stored only if the decision says so."""

    def __init__(self, arrival: UnsealedMessage, sessions: SessionStore, identity: Identity, now_ms: int) -> None:
        self._arrival = arrival
        self._sessions = sessions
        self._identity = identity
        self._now_ms = now_ms
        self.session: StoredSession | None = None
        self.ratchet: RatchetState | None = None
        self.accepted: Accepted | None = None

    def decrypt(self) -> DecryptedMessage | CannotDecrypt:
        """Decrypt in the session of the message; accept the session if it is new."""
        message = self._arrival.message
        try:
            self.session = self._sessions.find(message.sender, message.session_id)
            if self.session is not None:
                self.ratchet, plaintext = decrypt_message(self.session.ratchet, message, now_ms=self._now_ms)
            else:
                self.accepted = accept_session(
                    message, recipient=self._identity, prekeys=self._sessions.prekeys(), now_ms=self._now_ms
                )
                plaintext = self.accepted.plaintext
        except StoreUnusable:
            raise
        except MessageKeyGone:
            return CannotDecrypt(Verdict.REPLAY)
        except RestanteError:
            return CannotDecrypt()
        try:
            return _opened(self._arrival, plaintext)
        except RestanteError:
            return CannotDecrypt(Code.MALFORMED)


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
