"""A key of mixed order and a signature under it that every library accepts: such a key can't be blinded."""

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nacl import bindings

GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493


def mixed_order_key(public_key: bytes) -> bytes:
    """The key plus the point of order two: `cryptography` loads it as a key."""
    number = int.from_bytes(public_key, "little")
    y, sign = number & (2**255 - 1), number >> 255
    mixed = ((2**255 - 19 - y) | (1 - sign) << 255).to_bytes(32, "little")
    Ed25519PublicKey.from_public_bytes(mixed)
    return mixed


def signed_by_mixed_order(scalar: int, message: bytes) -> tuple[bytes, bytes]:
    """A key of mixed order whose secret scalar is known, and its signature: the point of order two drops out of what
    is verified as soon as the challenge is even."""
    mixed = mixed_order_key(_multiple_of_base(scalar))
    for nonce in range(1, 1_000):
        commitment = _multiple_of_base(nonce)
        challenge = int.from_bytes(hashlib.sha512(commitment + mixed + message).digest(), "little") % GROUP_ORDER
        if challenge % 2 == 0:
            answer = (nonce + challenge * scalar) % GROUP_ORDER
            return mixed, commitment + answer.to_bytes(32, "little")
    raise AssertionError("no nonce of a thousand has an even challenge")


def _multiple_of_base(scalar: int) -> bytes:
    return bytes(bindings.crypto_scalarmult_ed25519_base_noclamp(scalar.to_bytes(32, "little")))
