"""What must hold for every decoder: bytes cut, lengthened, damaged or random are refused, or mean something else.

A decoder may refuse with Malformed or TooLarge; any other exception passes through here and fails the test.
"""

from collections.abc import Callable
from typing import TypeVar

from restante.model.errors import Malformed, TooLarge

Value = TypeVar("Value")


def decoded(decode: Callable[[bytes], Value], raw: bytes) -> Value | None:
    """What `decode` makes of `raw`; None when it refuses."""
    try:
        return decode(raw)
    except (Malformed, TooLarge):
        return None


def assert_refuses_every_truncation(decode: Callable[[bytes], object], raw: bytes) -> None:
    accepted = [size for size in range(len(raw)) if decoded(decode, raw[:size]) is not None]
    assert accepted == [], f"accepted when cut to {accepted} of {len(raw)} bytes"


def assert_refuses_one_more_byte(decode: Callable[[bytes], object], raw: bytes) -> None:
    accepted = [value for value in range(256) if decoded(decode, raw + bytes([value])) is not None]
    assert accepted == [], f"accepted with one of {accepted} appended"


def assert_sees_every_bit(decode: Callable[[bytes], object], raw: bytes) -> None:
    """Each single-bit flip is refused or decodes to something different."""
    original = decode(raw)
    unseen = [bit for bit in range(len(raw) * 8) if decoded(decode, flipped(raw, bit)) == original]
    assert unseen == [], f"flipping one of the bits {unseen} changed nothing"


def flipped(raw: bytes, bit: int) -> bytes:
    """`raw` with one bit changed, counted from the top bit of the first byte."""
    damaged = bytearray(raw)
    damaged[bit // 8] ^= 0x80 >> bit % 8
    return bytes(damaged)
