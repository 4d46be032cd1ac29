"""What a message says: the innermost bytes, which only the ratchet of its session opens (SPEC 2.7, 8.4).

No signature: that a message opens in a session proves who wrote it, to the reader and to nobody else.
"""

import struct
from dataclasses import dataclass
from typing import Final

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import MAX_SEQUENCE
from restante.model.kinds import Kind, parse_kind
from restante.model.limits import MAX_SEALED_BYTES
from restante.wire.fields import check_number
from restante.wire.ttl_header import TTL_HEADER_BYTES, TtlHeader, decode_ttl_header, encode_ttl_header

_NUMBERS: Final = struct.Struct(">IB")
MIN_CONTENT_BYTES: Final = TTL_HEADER_BYTES + _NUMBERS.size
MAX_CONTENT_BYTES: Final = MAX_SEALED_BYTES  # SPEC 2.8: everything around it only adds


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """`sequence` counts the messages of a session in one direction and never restarts, unlike the ratchet's numbers."""

    header: TtlHeader
    sequence: int
    kind: Kind
    body: bytes

    def __post_init__(self) -> None:
        if not 0 <= self.sequence <= MAX_SEQUENCE:
            check_number(self.sequence, "sequence", high=MAX_SEQUENCE)


def encode_content(content: Content) -> bytes:
    kind = content.kind.encode("ascii")
    raw = encode_ttl_header(content.header) + _NUMBERS.pack(content.sequence, len(kind)) + kind + content.body
    if len(raw) > MAX_CONTENT_BYTES:
        raise TooLarge("the content", size_bytes=len(raw), limit_bytes=MAX_CONTENT_BYTES)
    return raw


def decode_content(raw: bytes) -> Content:
    if len(raw) > MAX_CONTENT_BYTES:
        raise TooLarge("the content", size_bytes=len(raw), limit_bytes=MAX_CONTENT_BYTES)
    if len(raw) < MIN_CONTENT_BYTES:
        raise Malformed(f"the content of a message has at least {MIN_CONTENT_BYTES} bytes, not {len(raw)}")
    sequence, kind_bytes = _NUMBERS.unpack_from(raw, TTL_HEADER_BYTES)
    end = MIN_CONTENT_BYTES + kind_bytes
    # Latin-1 gives every byte a character: what is no name of a kind is refused as such.
    kind = parse_kind(raw[MIN_CONTENT_BYTES:end].decode("latin-1")) if len(raw) >= end else None
    if kind is None:
        raise Malformed("the content is of a kind that is not known here")
    header = decode_ttl_header(raw[:TTL_HEADER_BYTES])
    return Content(header=header, sequence=sequence, kind=kind, body=raw[end:])
