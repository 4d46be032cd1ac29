"""The three ways in which keys come from keys: HKDF (RFC 5869), the root step and the chain step of the ratchet.

All of SHA-256. Which secret goes in, and what a label stands for, is the caller's business.

The two steps of the ratchet spell HMAC-SHA-256 out for keys of 32 bytes: `hmac.digest` and the library's HKDF look
their algorithm up at each call, which takes longer than the hashing and would be half the work of a message.
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
    """HKDF-SHA-256, extract and expand."""
    return HKDF(algorithm=hashes.SHA256(), length=size, salt=salt, info=info).derive(secret)


def root_step(root_key: bytes, agreed: bytes) -> tuple[bytes, bytes]:
    """KDF_RK of the Double Ratchet, HKDF with the root key as salt: the next root key and the key of a new chain."""
    extracted = _hmac(root_key, agreed)
    next_root = _hmac(extracted, _ROOT_LABEL + b"\x01")
    return next_root, _hmac(extracted, next_root + _ROOT_LABEL + b"\x02")


def chain_step(chain_key: bytes) -> tuple[bytes, bytes]:
    """KDF_CK of the Double Ratchet: the key of this message, HMAC(chain, 01), and of the rest, HMAC(chain, 02)."""
    inner = chain_key.translate(_INNER)
    outer = chain_key.translate(_OUTER) + _OUTER_REST
    return (
        _sha256(outer + _sha256(inner + _THIS_MESSAGE).digest()).digest(),
        _sha256(outer + _sha256(inner + _NEXT_CHAIN).digest()).digest(),
    )


def _hmac(key: bytes, message: bytes) -> bytes:
    inner = _sha256(key.translate(_INNER) + _INNER_REST + message).digest()
    return _sha256(key.translate(_OUTER) + _OUTER_REST + inner).digest()
