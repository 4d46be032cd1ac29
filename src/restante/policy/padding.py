"""Pad plaintext, so that the sealed size reveals little about it (SPEC 2.8, 2.9).

Padding is a marker byte 0x80 and then zeros up to the next of a few sizes.
"""

from typing import Final

from restante.model.errors import Malformed, TooLarge
from restante.model.limits import MAX_SEALED_BYTES

SMALL_SIZES_BYTES: Final = (4096, 8192)  # SPEC 2.9
STEP_BYTES: Final = 8192  # SPEC 2.9: beyond the small sizes, multiples of this
MAX_PADDED_BYTES: Final = MAX_SEALED_BYTES - STEP_BYTES
"""One step below the sealed maximum: sealing adds less than a step."""
MAX_PLAINTEXT_BYTES: Final = MAX_PADDED_BYTES - 1
"""The marker takes one byte."""

_MARKER: Final = b"\x80"
_ZEROS: Final = bytes(STEP_BYTES)


def padded_size_bytes(plaintext_bytes: int) -> int:
    """Return the size that plaintext of this length is padded to."""
    if plaintext_bytes > MAX_PLAINTEXT_BYTES:
        raise TooLarge("plaintext", size_bytes=plaintext_bytes, limit_bytes=MAX_PLAINTEXT_BYTES)
    marked = plaintext_bytes + len(_MARKER)
    for size in SMALL_SIZES_BYTES:
        if marked <= size:
            return size
    return -(-marked // STEP_BYTES) * STEP_BYTES


def pad(plaintext: bytes) -> bytes:
    return (plaintext + _MARKER).ljust(padded_size_bytes(len(plaintext)), b"\x00")


def unpad(padded: bytes) -> bytes:
    """Remove the padding. Exactly one padding of a plaintext is valid, so the padding cannot carry hidden data."""
    end = padded.rfind(_MARKER)
    # Compare the zeros as a whole: `rstrip` checks them one by one, which for a short text is slower than decrypting.
    if end < 0 or not padded.startswith(_ZEROS[: len(padded) - end - 1], end + 1):
        raise Malformed("the padding has no marker byte 0x80 before its zeros")
    if end > MAX_PLAINTEXT_BYTES or len(padded) != padded_size_bytes(end):
        raise Malformed(
            f"{len(padded)} bytes are not the padded size of {end};"
            f" sizes are 4096 and multiples of {STEP_BYTES} up to {MAX_PADDED_BYTES}"
        )
    return padded[:end]
