"""Renews prekeys and places inside sessions: tells contacts of ours, and keeps the newest of theirs (SPEC 3.14, 8.8).

Prekeys are renewed each week: an opening needs some that are at most 37 days old. Contact files get older; contacts
that talk do not.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from restante.client.contacts import Contact, ContactBook
from restante.client.outgoing import OutgoingMessages
from restante.client.places.own_places import OwnPlaces
from restante.client.security_events import SecurityEvents
from restante.core.mesh_proofs.published_keys import PublishedKeys, decode_published, encode_published
from restante.core.peer_sessions import current_session
from restante.core.signed_bundles import sign_bundle, verify_bundle
from restante.core.signed_places import is_newer, sign_places
from restante.crypto.identity import Identity
from restante.crypto.prekeys import PrekeyStore
from restante.model.ids import Address
from restante.model.kinds import Kind
from restante.model.places import Place
from restante.model.prekey_bundle import PrekeyBundle
from restante.runtime.sqlite.peer_prekeys import PeerPrekeys, Told
from restante.runtime.sqlite.session_store import SessionStore
from restante.wire.control_messages import KeysMessage, encode_keys_message
from restante.wire.places import places_to_sign
from restante.wire.prekey_bundle import decode_bundle

OLD_PREKEYS: Final = "old_prekeys"
"""Security event: a contact sent a prekey bundle that is older than the one known; it was refused."""


class PrekeyRenewal:
    """Every method is called inside a transaction."""

    def __init__(
        self,
        identity: Identity,
        places: OwnPlaces,
        *,
        contacts: ContactBook,
        sessions: SessionStore,
        prekeys: PeerPrekeys,
        outgoing: OutgoingMessages,
        security: SecurityEvents,
    ) -> None:
        self._identity = identity
        self._places = places
        self._contacts = contacts
        self._sessions = sessions
        self._prekeys = prekeys
        self._outgoing = outgoing
        self._security = security
        self._told_places: tuple[Place, ...] | None = None

    @property
    def has_moved(self) -> bool:
        """Whether our places are others than when contacts were told last, in this process."""
        return self._told_places is not None and self._told_places != self._places.current

    def tell_contacts(self, *, now_ms: int) -> None:
        """Send our prekeys and places to every contact that was told of older ones. Raises `OutboxFull`."""
        own = self._sessions.prekeys()
        if not own.signed:
            return
        newest = Told(own.signed[-1].prekey_id, _hash_of(self._places.current))
        for contact in self._contacts:
            current = current_session(self._sessions.peer(contact.address))
            if current is None or not current.is_read:
                continue
            told = self._prekeys.told(contact.address)
            # A contact that was told nothing yet has what our contact file or the mesh said, perhaps before we moved.
            if told != newest and (told is not None or self._places.former):
                body = encode_keys_message(KeysMessage(encode_published(self._published(own, now_ms))))
                self._outgoing.write(contact, body, kind=Kind.CONTROL, now_ms=now_ms)
            if told != newest:
                self._prekeys.set_told(contact.address, newest)
        self._told_places = self._places.current

    def receive(self, sender: Address, raw: bytes, *, now_ms: int) -> None:
        """Keep what a contact told us. Raises `RestanteError` if it is malformed or not signed by the contact."""
        if not self.keep(sender, decode_published(raw, owner=sender), now_ms=now_ms):
            self._security.report(OLD_PREKEYS, peer=sender, now_ms=now_ms)

    def keep(self, peer: Address, published: PublishedKeys, *, now_ms: int) -> bool:
        """Keep a contact's prekeys and places, each if it is newer; return whether the prekeys are.

        The places go to the contact's file. Raises `RestanteError` if the bundle is not signed by the contact.
        """
        bundle = verify_bundle(published.bundle, owner=peer, now_ms=now_ms)
        self._contacts.refresh()  # who was removed by another process would come back with its new places
        contact = self._contacts.expect(peer)
        known, places = contact.places, published.places
        # Those that name the same places, too: else an older statement could replace them.
        if is_newer(places.issued_at_ms, than_ms=known.issued_at_ms, now_ms=now_ms):
            self._contacts.add(replace(contact, places=places), now_ms=now_ms)
        newest = newest_known(contact, self._prekeys, now_ms=now_ms)
        has_newer = is_newer(bundle.issued_at_ms, than_ms=newest.issued_at_ms, now_ms=now_ms)
        if has_newer:
            self._prekeys.store(peer, published.bundle)
        return has_newer

    def _published(self, own: PrekeyStore, now_ms: int) -> PublishedKeys:
        """Return our places and base bundle, signed now. One-time prekeys are for contact files and relays."""
        return PublishedKeys(
            sign_places(self._places.current, self._identity, now_ms=now_ms),
            sign_bundle(replace(own, one_time={}), self._identity, now_ms=now_ms),
        )


def _hash_of(places: Sequence[Place]) -> bytes:
    return hashlib.sha256(places_to_sign(places, issued_at_ms=0)).digest()


def newest_known(contact: Contact, prekeys: PeerPrekeys, *, now_ms: int) -> PrekeyBundle:
    """Return the newer of the bundle in the contact's file and the one kept since; neither is verified here."""
    in_file, told = decode_bundle(contact.bundle), prekeys.bundle(contact.address)
    if told is None:
        return in_file
    in_session = decode_bundle(told)
    return in_session if is_newer(in_session.issued_at_ms, than_ms=in_file.issued_at_ms, now_ms=now_ms) else in_file
