"""Encrypt a secret with a passphrase: scrypt derives the key, and its cost is stored with the ciphertext (SPEC 8.6).

The cost comes from a file that may be forged. So it has a lower bound, below which guessing is cheap, and an upper
bound, above which scrypt would exhaust memory.
"""

import struct
import unicodedata
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.errors import Malformed, OutOfRange
from restante.model.ids import exactly
from restante.model.setting_ranges import check_ranges, ranged

MAGIC: Final = b"RSTP"
SALT_BYTES: Final = 16
PASSPHRASE_ENTROPY_BYTES: Final = SALT_BYTES + NONCE_BYTES
_VERSION: Final = 1
_HEAD: Final = struct.Struct(f">4sBBBB{SALT_BYTES}s")
_CONTEXT: Final = b"restante-passphrase-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScryptCost:
    """The cost of scrypt. Memory is 128 · r · 2^log2_n bytes: by default 128 MiB and about half a second; at most 1
    GiB."""

    log2_n: int = ranged(17, low=15, high=19, unit="(power of two)", clause="8.6")
    r: int = ranged(8, low=8, high=16, unit="", clause="8.6")
    p: int = ranged(1, low=1, high=4, unit="", clause="8.6")

    def __post_init__(self) -> None:
        check_ranges(self, "scrypt")


def is_under_passphrase(raw: bytes) -> bool:
    """Return whether `raw` is encrypted with a passphrase, by prefix and size. A bare secret is 32 random bytes."""
    return raw.startswith(MAGIC) and len(raw) > _HEAD.size + SALT_BYTES


def encrypt_with_passphrase(secret: bytes, passphrase: str, *, entropy: bytes, cost: ScryptCost | None = None) -> bytes:
    exactly(entropy, PASSPHRASE_ENTROPY_BYTES, "entropy for a passphrase")
    salt, nonce = entropy[:SALT_BYTES], entropy[SALT_BYTES:]
    chosen = ScryptCost() if cost is None else cost
    head = _HEAD.pack(MAGIC, _VERSION, chosen.log2_n, chosen.r, chosen.p, salt)
    return head + _seal(passphrase, salt, chosen).seal(secret, nonce=nonce, context=_CONTEXT + head)


def decrypt_with_passphrase(raw: bytes, passphrase: str) -> bytes:
    """Decrypt the secret. A wrong passphrase and a changed byte give the same error, because they cannot be
    distinguished."""
    if len(raw) < _HEAD.size or not is_under_passphrase(raw):
        raise Malformed("not a secret that was encrypted with a passphrase")
    _, version, log2_n, r, p, salt = _HEAD.unpack_from(raw)
    if version != _VERSION:
        raise Malformed(f"only version {_VERSION} of a secret under a passphrase is known, not {version}")
    try:
        cost = ScryptCost(log2_n=log2_n, r=r, p=p)
    except OutOfRange as problem:
        raise Malformed(f"the scrypt cost of the secret is not allowed: {problem}") from None
    return _seal(passphrase, salt, cost).unseal(raw[_HEAD.size :], context=_CONTEXT + raw[: _HEAD.size])


def _seal(passphrase: str, salt: bytes, cost: ScryptCost) -> StorageSeal:
    if not passphrase:
        raise Malformed("the passphrase is empty")
    # Normalize: the same characters typed on another machine may be other code points.
    try:
        typed = unicodedata.normalize("NFKC", passphrase).encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed("the passphrase contains an invalid character") from None
    return StorageSeal(Scrypt(salt=salt, length=32, n=1 << cost.log2_n, r=cost.r, p=cost.p).derive(typed))
