"""The frames of a relay link as one stream of bytes. No socket: bytes go in, frames come out.

A frame is a length (of what follows it), a type, a request number and a body. The request number is chosen by the
one who asks and comes back in the answer.
"""

import struct
from collections.abc import Mapping
from typing import Final

from restante.model.errors import Malformed, TooLarge
from restante.wire.fields import MAX_U32, check_number
from restante.wire.frame_bodies import (
    MAX_PUT_BYTES,
    Blob,
    Delete,
    Deleted,
    FrameType,
    Hello,
    Open,
    Opened,
    Ping,
    Pong,
    Put,
    Refused,
    Stored,
    open_to_sign,
)

__all__ = [
    "MAX_FRAME_BYTES",
    "Blob",
    "Delete",
    "Deleted",
    "Frame",
    "FrameReader",
    "FrameType",
    "Hello",
    "Open",
    "Opened",
    "Ping",
    "Pong",
    "Put",
    "Refused",
    "Stored",
    "encode_frame",
    "open_to_sign",
]

Frame = Hello | Open | Opened | Put | Stored | Refused | Blob | Delete | Deleted | Ping | Pong

_HEADER: Final = struct.Struct(">IBI")
_LENGTH_BYTES: Final = 4
_BYTES_BEFORE_BODY: Final = _HEADER.size - _LENGTH_BYTES
MAX_FRAME_BYTES: Final = _BYTES_BEFORE_BODY + MAX_PUT_BYTES
"""The largest length field; a larger one ends the link before any of the frame is kept."""

_CLASSES: Final[Mapping[int, type[Frame]]] = {
    each.TYPE: each for each in (Hello, Open, Opened, Put, Stored, Refused, Blob, Delete, Deleted, Ping, Pong)
}


def encode_frame(frame: Frame, request: int) -> bytes:
    check_number(request, "request", high=MAX_U32)
    body = frame.body()
    return _HEADER.pack(_BYTES_BEFORE_BODY + len(body), frame.TYPE, request) + body


class FrameReader:
    """Takes a stream in pieces of any size and gives its frames.

    A stream that breaks a rule is broken for good: this feed and every later one raise the same error. Frames that
    came whole in the same piece before the fault are not given; the link ends, and what was not answered is sent
    again.
    """

    __slots__ = ("_fault", "_needed_bytes", "_partial")

    def __init__(self) -> None:
        self._partial = bytearray()
        self._needed_bytes = 0
        self._fault: Malformed | TooLarge | None = None

    @property
    def partial_bytes(self) -> int:
        """How much of an unfinished frame is kept; 0 between frames, so a host can tell a cut from an end."""
        return len(self._partial)

    def feed(self, data: bytes) -> list[tuple[int, Frame]]:
        """The frames that are whole now, each with its request number."""
        if self._fault is not None:
            raise self._fault
        if self._partial:
            self._partial += data
            if len(self._partial) < self._needed_bytes:
                return []
            data = bytes(self._partial)
        try:
            frames, end, self._needed_bytes = _take_frames(data)
        except (Malformed, TooLarge) as fault:
            self._fault = fault
            self._partial = bytearray()
            raise
        self._partial = bytearray(data[end:])
        return frames


def _take_frames(data: bytes) -> tuple[list[tuple[int, Frame]], int, int]:
    """The whole frames of `data`, where the last one ends, and the bytes needed from there to know more."""
    frames: list[tuple[int, Frame]] = []
    start = 0
    while (needed_bytes := _needed_bytes(data, start)) <= len(data) - start:
        _, number, request = _HEADER.unpack_from(data, start)
        frames.append((request, _CLASSES[number].from_body(data[start + _HEADER.size : start + needed_bytes])))
        start += needed_bytes
    return frames, start, needed_bytes


def _needed_bytes(data: bytes, start: int) -> int:
    """How many bytes from `start` on are needed to decide more. What is there already is checked."""
    available = len(data) - start
    if available < _LENGTH_BYTES:
        return _LENGTH_BYTES
    length = int.from_bytes(data[start : start + _LENGTH_BYTES], "big")
    if length > MAX_FRAME_BYTES:
        raise TooLarge("a frame", size_bytes=length, limit_bytes=MAX_FRAME_BYTES)
    if length < _BYTES_BEFORE_BODY:
        raise Malformed(f"the length of a frame must be at least {_BYTES_BEFORE_BODY}, not {length}")
    if available < _HEADER.size:
        return _HEADER.size
    number = data[start + _LENGTH_BYTES]
    frame_class = _CLASSES.get(number)
    if frame_class is None:
        raise Malformed(f"{number} is no known type of frame")
    sizes = frame_class.SIZES
    if length - _BYTES_BEFORE_BODY not in sizes:
        raise Malformed(f"the body of {frame_class.TYPE.name} must have {sizes[0]}..{sizes[-1]} bytes")
    return _LENGTH_BYTES + length
