"""What a message says: the innermost bytes, which only the ratchet of its session opens (SPEC 2.7, 8.4).

No signature: that a message opens in a session proves who wrote it, to the reader and to nobody else.
"""

import struct
from typing import Final, NamedTuple

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import MAX_SEQUENCE
from restante.model.kinds import Kind
from restante.model.limits import MAX_SEALED_BYTES
from restante.wire.field_checks import check_number
from restante.wire.ttl_header import TTL_HEADER_BYTES, TtlHeader, decode_ttl_header, encode_ttl_header

_NUMBERS: Final = struct.Struct(">IB")
MIN_CONTENT_BYTES: Final = TTL_HEADER_BYTES + _NUMBERS.size
MAX_CONTENT_BYTES: Final = MAX_SEALED_BYTES  # SPEC 2.8: everything around it only adds
_KINDS: Final = {kind.encode("ascii"): kind for kind in Kind}


class Content(NamedTuple):
    """`sequence` counts the messages of a session in one direction and never restarts, unlike the ratchet's numbers.

    A tuple: one is made for every message that arrives.
    """

    header: TtlHeader
    sequence: int
    kind: Kind
    body: bytes


def encode_content(content: Content) -> bytes:
    check_number(content.sequence, "sequence", high=MAX_SEQUENCE)
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
    kind = _KINDS.get(raw[MIN_CONTENT_BYTES:end]) if len(raw) >= end else None
    if kind is None:
        raise Malformed("the content is of a kind that is not known here")
    return Content(decode_ttl_header(raw[:TTL_HEADER_BYTES]), sequence, kind, raw[end:])
