"""A TLS connection that feeds a link machine with its events. Both ends of a connection are subclasses."""

import asyncio
import ssl
from abc import abstractmethod
from collections.abc import Sequence

from restante.core.link.machine import Link
from restante.core.link.messages import (
    LOST,
    TIME_PASSED,
    WRITE_BLOCKED,
    WRITE_RESUMED,
    Effect,
    Event,
    Faulted,
    FramesReceived,
)
from restante.model.errors import LocalProtocolError, RestanteError
from restante.runtime.transport.tls import channel_of
from restante.runtime.transport.tls_connection import TlsConnection
from restante.wire.frames import codec


class LinkConnection(TlsConnection):
    """Subclasses make the machine, `_link`, and execute its effects."""

    _link: Link

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        super().__init__(context, server_side=server_side)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.can_write = True

    @abstractmethod
    def _execute(self, effects: Sequence[Effect], now_s: float) -> None:
        """Execute the effects of one event, in their order."""

    @property
    def binding(self) -> bytes:
        """32 bytes that only the two ends of this connection know; proofs sign them."""
        return channel_of(self.encryption)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._feed(TIME_PASSED)  # orders the timer of the handshake

    def on_frames(self, frames: list[codec.RawFrame], *, partial_bytes: int) -> None:
        self._feed(FramesReceived(frames, partial_bytes))

    def on_fault(self, error: RestanteError) -> None:
        self._feed(Faulted(error))

    def on_lost(self) -> None:
        self._feed(LOST)
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        self.can_write = False
        self._feed(WRITE_BLOCKED)

    def resume_writing(self) -> None:
        self.can_write = True
        self._feed(WRITE_RESUMED)

    def _feed(self, event: Event) -> None:
        now_s = self._loop.time()
        try:
            self._execute(self._link.handle(event, now_s=now_s), now_s)
        except RestanteError as error:
            if isinstance(error, LocalProtocolError):
                raise
            self._feed(Faulted(error))

    def _order_wake(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self.transport is None else self._loop.call_at(at_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._feed(TIME_PASSED)
