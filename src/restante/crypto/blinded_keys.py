"""Blinded Ed25519 keys: one inbox has another public key in every time bucket and at every relay (SPEC 7.2).

The public key is the address times a factor h that depends on the address, the access secret and the place. The owner
signs with its own scalar times the same h. These are ordinary Ed25519 signatures, so any library verifies them. A node
that sees two blinded keys can't tell whether they have the same owner, unless it suspects the address (and, for
the contacts inbox, knows the access secret).
"""

import hashlib
from typing import Final

from nacl import bindings
from nacl.exceptions import RuntimeError as LibsodiumError

from restante.crypto.identity import Identity
from restante.model.errors import Malformed
from restante.model.ids import NODE_KEY_BYTES, Address, BlindedKey, NodeKey, address, exactly

ACCESS_SECRET_BYTES: Final = 32
NO_SECRET: Final = b""
"""The access secret of the public inbox."""
SIGNING_ENTROPY_BYTES: Final = 32
PERIOD_BYTES: Final = 8
_DOMAIN: Final = b"restante-inbox-v1"
_SCALAR_BYTES: Final = 32
_MAX_PERIOD: Final = 0xFFFF_FFFF_FFFF_FFFF


def in_period(number: int) -> bytes:
    """Return the place of a time bucket (SPEC 7.2) or of a prekey period (7.6) in the mesh."""
    if not 0 <= number <= _MAX_PERIOD:
        raise Malformed(f"a time bucket must be in 0..{_MAX_PERIOD}")
    return number.to_bytes(PERIOD_BYTES, "big")


def at_relay(node: NodeKey) -> bytes:
    """Return the place of a named relay: its node key replaces the time bucket."""
    return exactly(node, NODE_KEY_BYTES, "node key")


def blind_address(owner: Address, *, place: bytes, access_secret: bytes = NO_SECRET) -> BlindedKey:
    """Return the public key of the owner's inbox at `place`. Raise `Malformed` if the address can't be blinded."""
    factor = _factor(owner, place, access_secret)
    try:
        return BlindedKey(bindings.crypto_scalarmult_ed25519_noclamp(factor, bytes(owner)))
    except LibsodiumError:
        raise Malformed("this address is not a point of the prime-order group; it can't receive mail") from None


class BlindedSigner:
    """The owner's signing key for one inbox at one place."""

    __slots__ = ("_scalar", "public_key")

    def __init__(self, owner: Identity, *, place: bytes, access_secret: bytes = NO_SECRET) -> None:
        factor = _factor(owner.address, place, access_secret)
        self._scalar = bindings.crypto_core_ed25519_scalar_mul(factor, _own_scalar(owner))
        self.public_key = BlindedKey(bindings.crypto_scalarmult_ed25519_base_noclamp(self._scalar))

    def __repr__(self) -> str:
        return "BlindedSigner(…)"

    def sign(self, message: bytes, *, entropy: bytes) -> bytes:
        """Return an Ed25519 signature under `public_key`. `entropy` is 32 fresh random bytes.

        The nonce hashes the entropy, the scalar and the message. Two equal draws therefore reveal no key.
        """
        exactly(entropy, SIGNING_ENTROPY_BYTES, "entropy")
        nonce = _reduced(entropy + self._scalar + message)
        commitment = bindings.crypto_scalarmult_ed25519_base_noclamp(nonce)
        challenge = _reduced(commitment + self.public_key + message)
        product = bindings.crypto_core_ed25519_scalar_mul(challenge, self._scalar)
        return bytes(commitment + bindings.crypto_core_ed25519_scalar_add(nonce, product))


def _factor(owner: Address, place: bytes, access_secret: bytes) -> bytes:
    """Return h. The sizes of secret and place are fixed, so no two inputs hash the same bytes."""
    if access_secret:
        exactly(access_secret, ACCESS_SECRET_BYTES, "access secret")
    if len(place) not in (PERIOD_BYTES, NODE_KEY_BYTES):
        raise Malformed("a blinded key belongs to a time bucket or to a relay's node key")
    return _reduced(_DOMAIN + address(owner) + access_secret + place)


def _own_scalar(owner: Identity) -> bytes:
    """Return the secret scalar of an Ed25519 key (RFC 8032, 5.1.5)."""
    raw = bytearray(hashlib.sha512(owner.signing_key.private_bytes_raw()).digest()[:_SCALAR_BYTES])
    raw[0] &= 0xF8
    raw[31] = raw[31] & 0x7F | 0x40
    return bytes(raw)


def _reduced(hashed: bytes) -> bytes:
    """Return SHA-512 of the bytes, modulo the order of the group."""
    return bytes(bindings.crypto_core_ed25519_scalar_reduce(hashlib.sha512(hashed).digest()))
