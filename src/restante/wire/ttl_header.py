"""The 13 bytes that open every plaintext: when a message was made and how long it lives (SPEC 2.7).

Which TTL a kind may have is not known here; policy decides that.
"""

import struct
from dataclasses import dataclass
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import exactly
from restante.model.kinds import TtlType
from restante.wire.fields import MAX_TIME_MS, MAX_U32, check_number, check_time

_LAYOUT: Final = struct.Struct(">QIB")
TTL_HEADER_BYTES: Final = _LAYOUT.size
_TYPES: Final = tuple(TtlType)


@dataclass(frozen=True, slots=True, kw_only=True)
class TtlHeader:
    created_at_ms: int
    ttl_s: int
    ttl_type: TtlType

    def __post_init__(self) -> None:
        if not (0 <= self.created_at_ms <= MAX_TIME_MS and 0 <= self.ttl_s <= MAX_U32):
            check_time(self.created_at_ms, "created_at")
            check_number(self.ttl_s, "ttl_seconds", high=MAX_U32)


def encode_ttl_header(header: TtlHeader) -> bytes:
    return _LAYOUT.pack(header.created_at_ms, header.ttl_s, header.ttl_type)


def decode_ttl_header(raw: bytes) -> TtlHeader:
    """Exactly 13 bytes."""
    created_at_ms, ttl_s, type_number = _LAYOUT.unpack(exactly(raw, TTL_HEADER_BYTES, "TTL header"))
    if type_number >= len(_TYPES):
        raise Malformed(f"ttl_type must be 0 (absolute) or 1 (relative), not {type_number}")
    return TtlHeader(created_at_ms=created_at_ms, ttl_s=ttl_s, ttl_type=_TYPES[type_number])


def split(plaintext: bytes) -> tuple[TtlHeader, bytes]:
    """The header and what follows it."""
    return decode_ttl_header(plaintext[:TTL_HEADER_BYTES]), plaintext[TTL_HEADER_BYTES:]
