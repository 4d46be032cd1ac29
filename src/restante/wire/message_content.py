"""Encode and decode the content of a message: the plaintext of the ratchet (SPEC 2.7, 8.4).

There is no signature: decryption in a session authenticates the sender to the recipient, and to no third party.
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
MAX_CONTENT_BYTES: Final = MAX_SEALED_BYTES  # SPEC 2.8: all outer layers only add bytes
_KINDS: Final = {kind.encode("ascii"): kind for kind in Kind}


class Content(NamedTuple):
    """The content. `sequence` counts the messages of a session in one direction and never restarts, unlike ratchet
    counters.

    It is a tuple because one is made for every arrival.
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


def content_size_bytes(content: Content) -> int:
    """Return the size of the encoded content."""
    return MIN_CONTENT_BYTES + len(content.kind) + len(content.body)


def decode_content(raw: bytes) -> Content:
    if len(raw) > MAX_CONTENT_BYTES:
        raise TooLarge("the content", size_bytes=len(raw), limit_bytes=MAX_CONTENT_BYTES)
    if len(raw) < MIN_CONTENT_BYTES:
        raise Malformed(f"the content of a message has at least {MIN_CONTENT_BYTES} bytes, not {len(raw)}")
    sequence, kind_bytes = _NUMBERS.unpack_from(raw, TTL_HEADER_BYTES)
    end = MIN_CONTENT_BYTES + kind_bytes
    kind = _KINDS.get(raw[MIN_CONTENT_BYTES:end]) if len(raw) >= end else None
    if kind is None:
        raise Malformed("the content has an unknown kind")
    return Content(decode_ttl_header(raw[:TTL_HEADER_BYTES]), sequence, kind, raw[end:])
