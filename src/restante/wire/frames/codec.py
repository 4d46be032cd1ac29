"""Encode frames to bytes and split a stream of bytes into frames. No socket.

A frame is a length (of what follows it), a type, a request number and a body. The end that sends a request chooses its
number, and the answer repeats it.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from restante.model.errors import Malformed, TooLarge
from restante.wire.field_checks import MAX_U32, check_number
from restante.wire.frames.greeting import Hello, Start, Subscribe, open_to_sign
from restante.wire.frames.mailbox import (
    MAX_PUT_BYTES,
    Blob,
    Credit,
    Delete,
    Deleted,
    Ping,
    Pong,
    Put,
    Refused,
    Stored,
    Subscribed,
)
from restante.wire.frames.types import PROTOCOL_VERSION, Capability, FrameType

__all__ = [
    "MAX_FRAME_BYTES",
    "PROTOCOL_VERSION",
    "Blob",
    "Capability",
    "Credit",
    "Delete",
    "Deleted",
    "Frame",
    "FrameSplitter",
    "FrameType",
    "Hello",
    "Ping",
    "Pong",
    "Put",
    "RawFrame",
    "Refused",
    "Start",
    "Stored",
    "Subscribe",
    "Subscribed",
    "Unknown",
    "decode_body",
    "encode_blobs",
    "encode_frame",
    "frame_head",
    "open_to_sign",
]

Frame = Hello | Start | Subscribe | Subscribed | Put | Stored | Refused | Blob | Delete | Deleted | Credit | Ping | Pong

_HEADER: Final = struct.Struct(">IBI")
_LENGTH: Final = struct.Struct(">I")
_HEADER_BYTES: Final = _HEADER.size
_LENGTH_BYTES: Final = _LENGTH.size
_BYTES_BEFORE_BODY: Final = _HEADER_BYTES - _LENGTH_BYTES
_BLOB_HEAD: Final = struct.Struct(">IBIQQ")
_BLOB_BYTES_BEFORE_ENVELOPE: Final = _BLOB_HEAD.size - _LENGTH_BYTES
MAX_FRAME_BYTES: Final = _BYTES_BEFORE_BODY + MAX_PUT_BYTES
"""The largest length field. A larger one ends the connection before any of the frame is buffered."""

_CLASSES: Final[Mapping[int, type[Frame]]] = {
    each.TYPE: each
    for each in (Hello, Start, Subscribe, Subscribed, Put, Stored, Refused, Blob, Delete, Deleted, Credit, Ping, Pong)
}
_LENGTHS: Final[Mapping[int, range]] = {
    number: range(each.SIZES[0] + _BYTES_BEFORE_BODY, each.SIZES[-1] + _BYTES_BEFORE_BODY + 1, each.SIZES.step)
    for number, each in _CLASSES.items()
}
_ANY_LENGTH: Final = range(_BYTES_BEFORE_BODY, MAX_FRAME_BYTES + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A frame of a type that this version does not know. Its end is known, so the connection can stay open."""

    number: int


class RawFrame(NamedTuple):
    """One frame with its body still encoded. `type` may be one that this version does not know."""

    type: int
    request: int
    body: bytes


def frame_head(number: int, request: int, body_bytes: int) -> bytes:
    """Return the header of a frame, for callers that have the body in pieces."""
    return _HEADER.pack(_BYTES_BEFORE_BODY + body_bytes, number, request)


def encode_frame(frame: Frame, request: int) -> bytes:
    check_number(request, "request", high=MAX_U32)
    body = frame.body()
    return frame_head(frame.TYPE, request, len(body)) + body


def encode_blobs(blobs: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Encode many BLOB frames from ids, times and envelopes, without an object for each."""
    parts: list[bytes] = []
    for blob_id, stored_at_ms, envelope in blobs:
        length = _BLOB_BYTES_BEFORE_ENVELOPE + len(envelope)
        parts += (_BLOB_HEAD.pack(length, FrameType.BLOB, 0, blob_id, stored_at_ms), envelope)
    return b"".join(parts)


def decode_body(number: int, body: bytes) -> Frame | Unknown:
    """Decode the body of a frame from `FrameSplitter`."""
    frame_class = _CLASSES.get(number)
    return Unknown(number=number) if frame_class is None else frame_class.from_body(body)


class FrameSplitter:
    """Splits a stream, fed in pieces of any size, into frames.

    Bodies are not decoded, but have a size that their type allows. After a fault this feed and every later one raise
    the same error. Frames that came whole in the same piece before the fault are dropped: the connection ends, and the
    peer sends again what was not answered.
    """

    __slots__ = ("_fault", "_needed_bytes", "_partial")

    def __init__(self) -> None:
        self._partial = bytearray()
        self._needed_bytes = 0
        self._fault: Malformed | TooLarge | None = None

    @property
    def partial_bytes(self) -> int:
        """Return how many bytes of an incomplete frame are buffered; 0 between frames."""
        return len(self._partial)

    def feed(self, data: bytes | bytearray | memoryview) -> list[RawFrame]:
        """Return the frames that are whole now. `data` may be reused afterwards."""
        if self._fault is not None:
            raise self._fault
        if self._partial:
            self._partial += data
            if len(self._partial) < self._needed_bytes:
                return []
            data = self._partial
        whole = bytes(data)  # one copy: its slices cost half of what slices of a view cost
        try:
            frames, end = self._take(whole)
        except (Malformed, TooLarge) as fault:
            self._fault = fault
            self._partial = bytearray()
            raise
        self._partial = bytearray(whole[end:])
        return frames

    def _take(self, data: bytes) -> tuple[list[RawFrame], int]:
        """Return the whole frames of `data` and where the last one ends."""
        frames: list[RawFrame] = []
        unpack_header, lengths_of, new = _HEADER.unpack_from, _LENGTHS.get, tuple.__new__  # without `RawFrame.__new__`
        start, size = 0, len(data)
        allowed: tuple[int, int] | None = None  # of the frame before: puts come in runs of one length
        while size - start >= _HEADER_BYTES:
            length, number, request = unpack_header(data, start)
            if allowed != (length, number):
                if length not in lengths_of(number, _ANY_LENGTH):
                    raise _wrong_length(length, number)
                allowed = length, number
            end = start + _LENGTH_BYTES + length
            if end > size:
                self._needed_bytes = end - start
                return frames, start
            frames.append(new(RawFrame, (number, request, data[start + _HEADER_BYTES : end])))
            start = end
        if size - start >= _LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(data, start)
            if length not in _ANY_LENGTH:
                raise _wrong_length(length, None)
        self._needed_bytes = _LENGTH_BYTES if size - start < _LENGTH_BYTES else _HEADER_BYTES
        return frames, start


def _wrong_length(length: int, number: int | None) -> Malformed | TooLarge:
    if length > MAX_FRAME_BYTES:
        return TooLarge("a frame", size_bytes=length, limit_bytes=MAX_FRAME_BYTES)
    if length < _BYTES_BEFORE_BODY or number is None:
        return Malformed(f"the length of a frame must be at least {_BYTES_BEFORE_BODY}, not {length}")
    sizes = _CLASSES[number].SIZES
    return Malformed(f"the body of {_CLASSES[number].TYPE.name} must have {sizes[0]}..{sizes[-1]} bytes")
