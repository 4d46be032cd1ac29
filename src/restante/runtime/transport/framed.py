"""A socket that speaks frames: what both ends of a relay link share."""

import asyncio
from collections.abc import Callable

from restante.model.errors import RestanteError
from restante.wire.frames import Frame, FrameReader, encode_frame


class FramedConnection(asyncio.Protocol):
    """Bytes of one connection as frames. A peer that breaks the format is cut off; others never notice."""

    def __init__(
        self, *, on_frame: Callable[[int, Frame], None], on_open: Callable[[], None], on_lost: Callable[[], None]
    ) -> None:
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._on_frame = on_frame
        self._on_open = on_open
        self._on_lost = on_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self._on_open()

    def data_received(self, data: bytes) -> None:
        try:
            for request, frame in self._reader.feed(data):
                self._on_frame(request, frame)
        except RestanteError:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the cause changes nothing for us
        self._transport = None
        self._on_lost()

    def send(self, frame: Frame, request: int) -> None:
        """Queue a frame; a connection that is gone swallows it, as a cable would."""
        if self._transport is not None:
            self._transport.write(encode_frame(frame, request))

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
