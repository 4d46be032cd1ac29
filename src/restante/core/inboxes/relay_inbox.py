"""An identity's inboxes at a named relay: the keys under which the relay stores them, and who may read them (SPEC 7.2).

The relay's node key takes the place of the time bucket. So two relays store one inbox under unrelated keys, and
neither learns the address.
"""

from functools import lru_cache
from typing import NamedTuple

from restante.crypto.blinded_keys import NO_SECRET, BlindedSigner, at_relay, blind_address
from restante.crypto.identity import Identity
from restante.model.ids import Address, InboxKey, NodeKey
from restante.wire.mesh_keys import blinded_relay_inbox_key


class OwnInbox(NamedTuple):
    """One of our own inboxes: the public one, or with an access secret the contacts inbox."""

    owner: Identity
    access_secret: bytes = NO_SECRET

    def signer_at(self, relay: NodeKey) -> BlindedSigner:
        """Return what proves this inbox to the relay."""
        return BlindedSigner(self.owner, place=at_relay(relay), access_secret=self.access_secret)


def relay_inbox_key(owner: Address, relay: NodeKey, access_secret: bytes = NO_SECRET) -> InboxKey:
    """Return the key under which the relay stores mail for this inbox."""
    return _relay_inbox_key(owner, relay, access_secret)


@lru_cache(maxsize=4_096)  # every put needs one; a multiplication on the curve takes 0.1 ms
def _relay_inbox_key(owner: Address, relay: NodeKey, access_secret: bytes) -> InboxKey:
    blinded = blind_address(owner, place=at_relay(relay), access_secret=access_secret)
    return blinded_relay_inbox_key(blinded, relay)
