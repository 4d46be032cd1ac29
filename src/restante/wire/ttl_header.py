"""The 13 bytes that open every plaintext: when a message was made and how long it lives (SPEC 2.7).

Which TTL a kind may have is not known here; policy decides that.
"""

import struct
from typing import Final, NamedTuple

from restante.model.errors import Malformed
from restante.model.ids import exactly
from restante.model.kinds import TtlType
from restante.wire.field_checks import MAX_TIME_MS, MAX_U32, check_number, check_time

_LAYOUT: Final = struct.Struct(">QIB")
TTL_HEADER_BYTES: Final = _LAYOUT.size
_TYPES: Final = tuple(TtlType)


class TtlHeader(NamedTuple):
    """A tuple: one is made for every message that arrives. Its numbers are checked on their way in and out."""

    created_at_ms: int
    ttl_s: int
    ttl_type: TtlType


def encode_ttl_header(header: TtlHeader) -> bytes:
    created_at_ms, ttl_s, ttl_type = header
    _check_numbers(created_at_ms, ttl_s)
    return _LAYOUT.pack(created_at_ms, ttl_s, ttl_type)


def decode_ttl_header(raw: bytes) -> TtlHeader:
    """Exactly 13 bytes."""
    created_at_ms, ttl_s, type_number = _LAYOUT.unpack(exactly(raw, TTL_HEADER_BYTES, "TTL header"))
    if type_number >= len(_TYPES):
        raise Malformed(f"ttl_type must be 0 (absolute) or 1 (relative), not {type_number}")
    _check_numbers(created_at_ms, ttl_s)
    return TtlHeader(created_at_ms, ttl_s, _TYPES[type_number])


def split(plaintext: bytes) -> tuple[TtlHeader, bytes]:
    """The header and what follows it."""
    return decode_ttl_header(plaintext[:TTL_HEADER_BYTES]), plaintext[TTL_HEADER_BYTES:]


def _check_numbers(created_at_ms: int, ttl_s: int) -> None:
    if not (0 <= created_at_ms <= MAX_TIME_MS and 0 <= ttl_s <= MAX_U32):
        check_time(created_at_ms, "created_at")
        check_number(ttl_s, "ttl_seconds", high=MAX_U32)
