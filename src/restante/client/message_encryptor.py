"""Encrypts mail when it is first leased: chooses the session, advances its ratchet, takes the next number (SPEC 3.4).

Every method is called inside a transaction. What it changes commits together with the lease, so that the first byte
leaves only after ratchet and number are on disk (SPEC 3.2, 8.2). A run of entries writes each session once.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from restante.client.contacts import Contact, ContactBook
from restante.client.security_events import SecurityEvents
from restante.core.peer_session_events import KnownSession, Opened, SessionExpired
from restante.core.peer_sessions import current_session, next_generation, step
from restante.core.session_messages import encrypt_message
from restante.core.signed_bundles import verify_bundle
from restante.core.signed_places import is_newer
from restante.crypto.handshake import HANDSHAKE_ENTROPY_BYTES, encapsulate, initiate
from restante.crypto.identity import Identity
from restante.crypto.journal_tags import session_tag
from restante.crypto.prekeys import choose_one_time
from restante.crypto.ratchet import ENCRYPT_ENTROPY_BYTES
from restante.crypto.sealing import seal
from restante.crypto.sender_tag import SenderTags
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.error_codes import Code
from restante.model.errors import RestanteError, StoreUnusable
from restante.model.ids import Address, MessageId, SessionId
from restante.model.outbox_entry import OutboxEntry
from restante.model.prekey_bundle import OneTimePrekey, PrekeyBundle
from restante.policy.failures import Failure
from restante.ports.encryptor import Encrypted, EncryptFailed
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.peer_prekeys import PeerPrekeys
from restante.runtime.sqlite.session_store import SessionStore, StoredSession
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.message_content import Content, decode_content, encode_content
from restante.wire.prekey_bundle import decode_bundle

NO_ONE_TIME_PREKEY: Final = "no_one_time_prekey"
"""Security event of both sides: the first message of a session is protected by the signed prekey alone."""


class MessageEncryptor:
    """Satisfies `ports.encryptor.Encryptor`: one identity's sending side of all its sessions."""

    def __init__(
        self,
        identity: Identity,
        *,
        contacts: ContactBook,
        sessions: SessionStore,
        prekeys: PeerPrekeys,
        storage: StorageSeal,
        entropy: Entropy,
        security: SecurityEvents,
    ) -> None:
        self._identity = identity
        self._tags = SenderTags(identity)
        self._contacts = contacts
        self._sessions = sessions
        self._prekeys = prekeys
        self._storage = storage
        self._entropy = entropy
        self._security = security
        self._failed: list[tuple[Address, SessionId]] = []

    def encrypt(self, entries: Sequence[OutboxEntry], *, now_ms: int) -> list[Encrypted | EncryptFailed]:
        """Encrypt each entry for its recipient, in their order. One that fails deletes the session it failed in."""
        return [self._encrypt_entry(entry, now_ms) for entry in entries]

    def seal_at_rest(self, content: Content, message_id: MessageId) -> bytes:
        """Seal a message under the local storage key, until it is encrypted and as long as it may be again."""
        nonce = self._entropy.draw(NONCE_BYTES)
        return self._storage.seal(encode_content(content), nonce=nonce, context=message_id)

    def check_reachable(self, contact: Contact, *, now_ms: int) -> None:
        """Raise unless a message to this contact can be encrypted now: in a session, or with its prekeys."""
        if not self._sessions.peer(contact.address).sessions:
            self.newest_bundle(contact, now_ms=now_ms)

    def encrypt_for(self, contact: Contact, entry: OutboxEntry, *, now_ms: int) -> Encrypted:
        """Encrypt the plaintext that the entry keeps, in the current session; open one if there is none."""
        session = self._session_with(contact, now_ms)
        content = decode_content(self._storage.unseal(entry.sealed_plaintext, context=entry.message_id))
        is_again = entry.first_attempt_at_ms is not None and self._sessions.give_up_number(entry.message_id)
        encrypted = self.encrypt_content(session, contact, entry.message_id, content)
        return encrypted._replace(is_again=is_again)

    def encrypt_content(
        self, session: StoredSession, contact: Contact, message_id: MessageId, content: Content
    ) -> Encrypted:
        """Encrypt a message in this session, under the session's next number."""
        plaintext = encode_content(content._replace(sequence=session.next_sequence))
        ratchet, padded = encrypt_message(
            session.ratchet,
            plaintext,
            sender=self._identity.address,
            session_id=session.session_id,
            message_id=message_id,
            generation=session.generation,
            opening=session.opening,
            make_tag=partial(self._tags.make, recipient=contact.card),
            entropy=self._entropy.draw(ENCRYPT_ENTROPY_BYTES),
        )
        sealed = seal(padded, contact.card)
        encrypted = Encrypted(
            payload=sealed,
            payload_hash=hash_sealed_bytes(sealed),
            session_tag=session_tag(self._identity.tag_secret, session.session_id),
            sequence=session.next_sequence,
        )
        self._sessions.advance(session, ratchet)
        self._sessions.take_number(session, message_id, encrypted.payload_hash)
        return encrypted

    def newest_bundle(self, contact: Contact, *, now_ms: int) -> PrekeyBundle:
        """Return the contact's newest prekeys, from its file or from a session (SPEC 8.8).

        Raises `RestanteError` if they are too old or not signed by it.
        """
        told = self._prekeys.bundle(contact.address)
        in_file_ms = decode_bundle(contact.bundle).issued_at_ms
        if told is not None and is_newer(decode_bundle(told).issued_at_ms, than_ms=in_file_ms, now_ms=now_ms):
            return verify_bundle(told, owner=contact.address, now_ms=now_ms)
        return contact.usable_bundle(now_ms=now_ms)

    def _bundle_with_one_time(self, contact: Contact, now_ms: int) -> PrekeyBundle:
        """Return the prekeys of the contact's file while they are usable: only those have one-time prekeys."""
        try:
            return contact.usable_bundle(now_ms=now_ms)
        except RestanteError:
            return self.newest_bundle(contact, now_ms=now_ms)

    def open_session(
        self, contact: Contact, *, generation: int, uses_one_time_prekey: bool, now_ms: int
    ) -> StoredSession:
        """Open a session with the contact's prekeys and store it. Raises `RestanteError` if they can't be used."""
        peer = contact.address
        if uses_one_time_prekey:
            bundle = self._bundle_with_one_time(contact, now_ms)
            one_time = self._unused_one_time(bundle)
        else:
            bundle, one_time = self.newest_bundle(contact, now_ms=now_ms), None
        agreed = initiate(
            self._identity,
            bundle,
            one_time=one_time,
            encapsulation=encapsulate(bundle),
            entropy=self._entropy.draw(HANDSHAKE_ENTROPY_BYTES),
            generation=generation,
        )
        if one_time is None:
            self._security.warn(NO_ONE_TIME_PREKEY, peer=peer, session_id=agreed.session_id, now_ms=now_ms)
        else:
            self._sessions.spend(peer, one_time.prekey_id)
        return self._sessions.add(agreed, peer, now_ms=now_ms)

    def take_failed_sessions(self) -> list[tuple[Address, SessionId]]:
        """Return the sessions that were deleted because this client could not encrypt in them."""
        failed, self._failed = self._failed, []
        return failed

    def _encrypt_entry(self, entry: OutboxEntry, now_ms: int) -> Encrypted | EncryptFailed:
        contact = self._contact(entry.lane)
        if contact is None:
            return EncryptFailed(Failure.RECIPIENT_KEY_NOT_FOUND)
        try:
            return self.encrypt_for(contact, entry, now_ms=now_ms)
        except StoreUnusable:
            raise
        except RestanteError as problem:
            if problem.code is Code.RECIPIENT_NOT_FOUND:
                return EncryptFailed(Failure.RECIPIENT_KEY_NOT_FOUND)
            self._delete_failed_session(contact, now_ms)
            return EncryptFailed(Failure.ENCRYPTION_FAILED)

    def _delete_failed_session(self, contact: Contact, now_ms: int) -> None:
        """Delete the session in which encryption failed (SPEC 4.4). Maintenance opens another within the interval."""
        state = self._sessions.peer(contact.address)
        current = current_session(state)
        if current is None:
            return
        after, _ = step(state, SessionExpired(current.session_id), now_ms=now_ms)
        self._sessions.store_peer(contact.address, after, now_ms=now_ms)
        self._failed.append((contact.address, current.session_id))

    def _contact(self, lane: str) -> Contact | None:
        recipient = self._contacts.recipient(lane)
        return None if recipient is None else self._contacts.get(recipient.address)

    def _session_with(self, contact: Contact, now_ms: int) -> StoredSession:
        current = self._sessions.current(contact.address)
        if current is not None:
            return current
        peer = contact.address
        generation = next_generation(self._sessions.peer(peer))
        session = self.open_session(contact, generation=generation, uses_one_time_prekey=True, now_ms=now_ms)
        opened = Opened(KnownSession(session.session_id, generation, is_initiator=True))
        after, _ = step(self._sessions.peer(peer), opened, now_ms=now_ms)
        self._sessions.store_peer(peer, after, now_ms=now_ms)
        return session

    def _unused_one_time(self, bundle: PrekeyBundle) -> OneTimePrekey | None:
        spent = self._sessions.spent(bundle.card.address)
        left = tuple(one for one in bundle.one_time if one.prekey_id not in spent)
        return choose_one_time(replace(bundle, one_time=left), int.from_bytes(self._entropy.draw(4), "big"))
