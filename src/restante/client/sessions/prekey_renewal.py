"""Renews prekeys inside sessions: tells contacts of ours each week, and keeps the newest of theirs (SPEC 8.8).

An opening needs prekeys that are at most 37 days old. Contact files get older; contacts that talk do not.
"""

from dataclasses import replace
from typing import Final

from restante.client.contacts import Contact, ContactBook
from restante.client.outgoing import OutgoingMessages
from restante.client.security_events import SecurityEvents
from restante.core.peer_sessions import current_session
from restante.core.signed_bundles import sign_bundle, verify_bundle
from restante.crypto.identity import Identity
from restante.model.ids import Address
from restante.model.kinds import Kind
from restante.model.prekey_bundle import PrekeyBundle
from restante.runtime.sqlite.peer_prekeys import PeerPrekeys
from restante.runtime.sqlite.session_store import SessionStore
from restante.wire.control_messages import PrekeysMessage, encode_prekeys_message
from restante.wire.prekey_bundle import decode_bundle

OLD_PREKEYS: Final = "old_prekeys"
"""Security event: a contact sent a prekey bundle that is older than the one known; it was refused."""


class PrekeyRenewal:
    """Every method is called inside a transaction."""

    def __init__(
        self,
        identity: Identity,
        *,
        contacts: ContactBook,
        sessions: SessionStore,
        prekeys: PeerPrekeys,
        outgoing: OutgoingMessages,
        security: SecurityEvents,
    ) -> None:
        self._identity = identity
        self._contacts = contacts
        self._sessions = sessions
        self._prekeys = prekeys
        self._outgoing = outgoing
        self._security = security

    def tell_contacts(self, *, now_ms: int) -> None:
        """Send our newest signed prekey to every contact that was told of an older one. Raises `OutboxFull`."""
        own = self._sessions.prekeys()
        if not own.signed:
            return
        newest = own.signed[-1].prekey_id
        for contact in self._contacts:
            current = current_session(self._sessions.peer(contact.address))
            if current is None or not current.is_read:
                continue
            told = self._prekeys.told(contact.address)
            if told is not None and told < newest:
                bundle = sign_bundle(replace(own, one_time={}), self._identity, now_ms=now_ms)
                body = encode_prekeys_message(PrekeysMessage(bundle))
                self._outgoing.write(contact, body, kind=Kind.CONTROL, now_ms=now_ms)
            if told != newest:
                self._prekeys.set_told(contact.address, newest)

    def keep(self, sender: Address, raw: bytes, *, now_ms: int) -> None:
        """Keep a contact's renewed bundle. Raises `RestanteError` if it is malformed or not signed by the contact."""
        bundle = verify_bundle(raw, owner=sender, now_ms=now_ms)
        contact = self._contacts.expect(sender)
        if bundle.issued_at_ms <= newest_known(contact, self._prekeys).issued_at_ms:
            self._security.report(OLD_PREKEYS, peer=sender, now_ms=now_ms)
            return
        self._prekeys.store(sender, raw)


def newest_known(contact: Contact, prekeys: PeerPrekeys) -> PrekeyBundle:
    """Return the newer of the bundle in the contact's file and the one that it told us; neither is verified here."""
    in_file, told = decode_bundle(contact.bundle), prekeys.bundle(contact.address)
    if told is None:
        return in_file
    in_session = decode_bundle(told)
    return in_session if in_session.issued_at_ms > in_file.issued_at_ms else in_file
