"""What several formats share: moments, counters and signatures, and how far each may go."""

from typing import Final

from restante.model.errors import LocalProtocolError, Malformed
from restante.model.ids import exactly

SIGNATURE_BYTES: Final = 64  # Ed25519
UNSIGNED: Final = b""
"""The signature of something that is still to be signed: it has bytes to sign, and cannot be encoded."""

MAX_U32: Final = 0xFFFF_FFFF
MAX_TIME_MS: Final = 253_402_300_799_999
"""The end of the year 9999. A later moment has no date, and 63-bit columns could overflow once a TTL is added to it:
a peer could stop a store with one number."""


def check_number(value: int, what: str, *, low: int = 0, high: int) -> None:
    if not low <= value <= high:
        raise Malformed(f"{what} must be in {low}..{high}")


def check_time(value_ms: int, what: str) -> None:
    check_number(value_ms, what, high=MAX_TIME_MS)


def check_signature(raw: bytes) -> None:
    """A signature is whole, or not there yet."""
    if raw != UNSIGNED:
        exactly(raw, SIGNATURE_BYTES, "signature")


def signature_to_encode(raw: bytes, what: str) -> bytes:
    if raw == UNSIGNED:
        raise LocalProtocolError(f"{what} must be signed before it is encoded")
    return raw
