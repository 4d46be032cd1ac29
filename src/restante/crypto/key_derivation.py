"""Key derivation with SHA-256: HKDF (RFC 5869), and the root and chain steps of the ratchet.

The two ratchet steps implement HMAC-SHA-256 for 32-byte keys. `hmac.digest` and the library's HKDF look up their
algorithm in each call, which takes longer than the hashing and would be half the cost of a message.
"""

import hashlib
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES: Final = 32
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(value ^ 0x36 for value in range(256))
_OUTER: Final = bytes(value ^ 0x5C for value in range(256))
_INNER_REST: Final = b"\x36" * (_BLOCK_BYTES - KEY_BYTES)
_OUTER_REST: Final = b"\x5c" * (_BLOCK_BYTES - KEY_BYTES)

_THIS_MESSAGE: Final = _INNER_REST + b"\x01"
_NEXT_CHAIN: Final = _INNER_REST + b"\x02"
_ROOT_LABEL: Final = b"restante-ratchet-root-v1"
_sha256: Final = hashlib.sha256


def hkdf(secret: bytes, *, salt: bytes, info: bytes, size: int) -> bytes:
    """Return HKDF-SHA-256, extract and expand."""
    return HKDF(algorithm=hashes.SHA256(), length=size, salt=salt, info=info).derive(secret)


def root_step(root_key: bytes, agreed: bytes) -> tuple[bytes, bytes]:
    """Return the next root key and the key of a new chain: KDF_RK of the Double Ratchet, HKDF with the root key as
    salt."""
    extracted = _hmac(root_key, agreed)
    next_root = _hmac(extracted, _ROOT_LABEL + b"\x01")
    return next_root, _hmac(extracted, next_root + _ROOT_LABEL + b"\x02")


def chain_step(chain_key: bytes) -> tuple[bytes, bytes]:
    """Return the seed of the message key, HMAC(chain, 01), and the next chain key, HMAC(chain, 02): KDF_CK of the
    Double Ratchet."""
    inner = chain_key.translate(_INNER)
    outer = chain_key.translate(_OUTER) + _OUTER_REST
    return (
        _sha256(outer + _sha256(inner + _THIS_MESSAGE).digest()).digest(),
        _sha256(outer + _sha256(inner + _NEXT_CHAIN).digest()).digest(),
    )


def message_key(seed: bytes, random: bytes) -> bytes:
    """Return HMAC(seed, random bytes): the key of one message (SPEC 8.12)."""
    return _hmac(seed, random)


def _hmac(key: bytes, message: bytes) -> bytes:
    inner = _sha256(key.translate(_INNER) + _INNER_REST + message).digest()
    return _sha256(key.translate(_OUTER) + _OUTER_REST + inner).digest()
