"""What others need to write to us, signed: prekeys and places, for a contact file or the mesh (SPEC 7.6, 8.1)."""

from dataclasses import replace

from restante.client.composition import ClientParts
from restante.client.contacts import Contact
from restante.client.places.own_places import OwnPlaces
from restante.core.mesh_proofs.published_keys import PublishedKeys
from restante.core.signed_bundles import sign_bundle
from restante.core.signed_places import SignedPlaces, sign_places
from restante.crypto.identity import Identity
from restante.ports.clock import Clock


class OwnKeys:
    def __init__(self, parts: ClientParts, identity: Identity, places: OwnPlaces, *, clock: Clock) -> None:
        self._parts = parts
        self._identity = identity
        self._places = places
        self._clock = clock

    async def bundle(self, *, has_one_time: bool = True) -> bytes:
        """Return the signed prekey bundle, after creating or renewing prekeys that are due."""

        def make() -> bytes:
            now_ms = self._clock.now_ms()
            self._parts.maintenance.renew_prekeys(now_ms=now_ms)
            prekeys = self._parts.sessions.prekeys()
            chosen = prekeys if has_one_time else replace(prekeys, one_time={})
            return sign_bundle(chosen, self._identity, now_ms=now_ms)

        return await self._parts.file.run(make)

    async def as_contact(self) -> Contact:
        """Return what a contact file contains."""
        return Contact(card=self._identity.card, bundle=await self.bundle(), places=self._signed_places())

    async def published(self) -> PublishedKeys:
        """Return what the mesh holds for those who know our address: the base bundle, without one-time prekeys."""
        return PublishedKeys(self._signed_places(), await self.bundle(has_one_time=False))

    def _signed_places(self) -> SignedPlaces:
        return sign_places(self._places.current, self._identity, now_ms=self._clock.now_ms())
