"""Identities with a given Ed25519 key, such as those of RFC 8032."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nacl import bindings

from restante.crypto.identity import Identity
from restante.model.ids import Address, NodeKey


class KnownIdentity(Identity):
    """An identity with this signing key instead of one derived from a seed."""

    def __init__(self, secret: str) -> None:
        super().__init__(bytes(32))
        self._signing = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
        _, self._secret = bindings.crypto_sign_seed_keypair(bytes.fromhex(secret))

    @property
    def address(self) -> Address:
        return Address(self._signing.public_key().public_bytes_raw())

    @property
    def node_key(self) -> NodeKey:
        return NodeKey(bytes(self.address))
