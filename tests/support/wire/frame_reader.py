"""Reads a stream as decoded frames; the hosts decode each frame where they handle it."""

from restante.model.errors import Malformed, TooLarge
from restante.wire.frames.codec import Frame, FrameSplitter, Unknown, decode_body


class FrameReader:
    """Splits a stream and decodes each body; types that this version does not know become `Unknown`."""

    __slots__ = ("_fault", "_splitter")

    def __init__(self) -> None:
        self._splitter = FrameSplitter()
        self._fault: Malformed | TooLarge | None = None

    @property
    def partial_bytes(self) -> int:
        return 0 if self._fault is not None else self._splitter.partial_bytes

    def feed(self, data: bytes | memoryview) -> list[tuple[int, Frame | Unknown]]:
        """Return the frames that are whole now, each with its request number."""
        if self._fault is not None:
            raise self._fault
        try:
            return [(frame.request, decode_body(frame.type, frame.body)) for frame in self._splitter.feed(data)]
        except (Malformed, TooLarge) as fault:
            self._fault = fault
            raise
