"""Checks that several formats share: times, counters and signatures."""

from typing import Final

from restante.model.errors import LocalProtocolError, Malformed
from restante.model.ids import exactly

SIGNATURE_BYTES: Final = 64  # Ed25519
UNSIGNED: Final = b""
"""The signature of a value that is not signed yet. Such a value cannot be encoded."""

MAX_U32: Final = 0xFFFF_FFFF
MAX_TIME_MS: Final = 253_402_300_799_999
"""The end of the year 9999. A later time has no date, and adding a TTL to it could overflow a 63-bit column: a peer
could stop a store with one number."""


def check_number(value: int, what: str, *, low: int = 0, high: int) -> None:
    if not low <= value <= high:
        raise Malformed(f"{what} must be in {low}..{high}")


def check_time(value_ms: int, what: str) -> None:
    check_number(value_ms, what, high=MAX_TIME_MS)


def check_signature(raw: bytes) -> None:
    """Raise `Malformed` unless the signature is absent or complete."""
    if raw != UNSIGNED:
        exactly(raw, SIGNATURE_BYTES, "signature")


def signature_to_encode(raw: bytes, what: str) -> bytes:
    if raw == UNSIGNED:
        raise LocalProtocolError(f"{what} must be signed before it is encoded")
    return raw
