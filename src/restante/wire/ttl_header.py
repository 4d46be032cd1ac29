"""Encode and decode the TTL header: the first 13 bytes of every plaintext (SPEC 2.7). policy/ttl checks the range."""

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
    """Creation time and TTL. It is a tuple because one is made for every arrival; encoder and decoder check its
    numbers."""

    created_at_ms: int
    ttl_s: int
    ttl_type: TtlType


def encode_ttl_header(header: TtlHeader) -> bytes:
    created_at_ms, ttl_s, ttl_type = header
    _check_numbers(created_at_ms, ttl_s)
    return _LAYOUT.pack(created_at_ms, ttl_s, ttl_type)


def decode_ttl_header(raw: bytes) -> TtlHeader:
    """Decode exactly 13 bytes."""
    created_at_ms, ttl_s, type_number = _LAYOUT.unpack(exactly(raw, TTL_HEADER_BYTES, "TTL header"))
    if type_number >= len(_TYPES):
        raise Malformed(f"ttl_type must be 0 (absolute) or 1 (relative), not {type_number}")
    _check_numbers(created_at_ms, ttl_s)
    return TtlHeader(created_at_ms, ttl_s, _TYPES[type_number])


def split(plaintext: bytes) -> tuple[TtlHeader, bytes]:
    """Return the header and the bytes after it."""
    return decode_ttl_header(plaintext[:TTL_HEADER_BYTES]), plaintext[TTL_HEADER_BYTES:]


def _check_numbers(created_at_ms: int, ttl_s: int) -> None:
    if not (0 <= created_at_ms <= MAX_TIME_MS and 0 <= ttl_s <= MAX_U32):
        check_time(created_at_ms, "created_at")
        check_number(ttl_s, "ttl_seconds", high=MAX_U32)
