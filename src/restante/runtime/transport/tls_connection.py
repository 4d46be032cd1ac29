"""One end of an encrypted connection that speaks frames: what a node's sessions and a client's links share.

TLS runs here over memory buffers rather than in asyncio's own wrapper, which holds 256 KiB for every connection: a
thousand idle ones would take that much memory each. What frames mean is decided by the subclass.
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable
from typing import Final, cast

from restante.model.errors import RemoteProtocolError, RestanteError
from restante.wire.frames.codec import FrameSplitter, RawFrame

BUFFER_BYTES: Final = 262_144


class _Buffers(threading.local):
    """Where bytes pass through and nothing stays: all connections of one thread, so of one event loop, share them."""

    def __init__(self) -> None:
        self.received = memoryview(bytearray(BUFFER_BYTES))
        self.decrypted = memoryview(bytearray(BUFFER_BYTES))


_BUFFERS: Final = _Buffers()


class TlsConnection(asyncio.BufferedProtocol):
    """A peer that breaks TLS or the format of frames ends its own connection; others never notice."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.encryption = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        # Given a buffer it returns a number, whatever its stub says.
        self._read_into = cast("Callable[[int, memoryview], int]", self.encryption.read)
        self._splitter = FrameSplitter()
        self.transport: asyncio.Transport | None = None
        self.is_secure = False
        self._took_leave = False

    def on_secured(self) -> None:
        """The handshake is over; nothing was sent since. `abort` here leaves the other end without a byte of ours."""

    def on_frames(self, frames: list[RawFrame]) -> None:
        """Handle the frames that have arrived whole."""

    def on_fault(self, error: RestanteError) -> None:
        """The other end broke a rule; the connection is still there and should be ended."""

    def on_lost(self) -> None:
        """The connection is gone, whatever was the cause."""

    def send(self, raw: bytes) -> None:
        """Queue bytes; a connection that is gone swallows them, as a cable would."""
        if self.transport is None or not self.is_secure or self._took_leave or self.transport.is_closing():
            return
        sent = self.encryption.write(raw)
        while sent < len(raw):
            sent += self.encryption.write(memoryview(raw)[sent:])
        self.transport.write(self._outgoing.read())

    def disconnect(self) -> None:
        """End the connection after all that was sent has left."""
        if self.transport is None:
            return
        if self.is_secure:
            with contextlib.suppress(ssl.SSLError):  # the goodbye is written; the other end's is usually still to come
                self.encryption.unwrap()
            self._send_outgoing()
        self.transport.close()

    def close_gracefully(self) -> None:
        """Say no more, and end when the other end does.

        To close with bytes of the other end unread would reset the connection, and our last words would be lost on it.
        """
        if self.transport is None or self.transport.is_closing() or self._took_leave:
            return
        if not self.is_secure:
            self.transport.close()
            return
        with contextlib.suppress(ssl.SSLError):
            self.encryption.unwrap()
        self._send_outgoing()
        self._took_leave = True
        self.transport.write_eof()
        self.transport.resume_reading()

    def abort(self) -> None:
        """End the connection now."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self.transport = transport
            self._shake_hands()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the cause changes nothing for us
        self.transport = None
        self.on_lost()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - there is always enough
        return _BUFFERS.received

    def buffer_updated(self, nbytes: int) -> None:
        if self._took_leave:
            return
        self._incoming.write(_BUFFERS.received[:nbytes])
        try:
            if self.is_secure or self._shake_hands():
                self._decrypt()
        except RestanteError as error:
            self.on_fault(error)

    def _shake_hands(self) -> bool:
        try:
            self.encryption.do_handshake()
        except ssl.SSLWantReadError:
            self._send_outgoing()
            return False
        except ssl.SSLError as error:
            self._send_outgoing()  # the alert that says why
            raise RemoteProtocolError("no TLS 1.3 with a certificate of ours") from error
        self.is_secure = True
        self.on_secured()
        self._send_outgoing()
        return self.transport is not None and not self.transport.is_closing()

    def _decrypt(self) -> None:
        """Everything that is there. A full buffer is handed on at once, a part of one when no more comes."""
        decrypted = _BUFFERS.decrypted
        filled = 0
        is_over = False
        try:
            while (got := self._read_into(BUFFER_BYTES - filled, decrypted[filled:])) > 0:
                filled += got
                if filled == BUFFER_BYTES:
                    self.on_frames(self._splitter.feed(decrypted))
                    filled = 0
                elif not self._incoming.pending and not self.encryption.pending():
                    break  # to ask once more would cost as much as a small frame does
            else:
                is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            is_over = True
        except ssl.SSLError as error:
            raise RemoteProtocolError("what came is not what was encrypted") from error
        if filled:
            self.on_frames(self._splitter.feed(decrypted[:filled]))
        if is_over:
            self.disconnect()
        elif self._outgoing.pending:
            self._send_outgoing()

    def _send_outgoing(self) -> None:
        if self._took_leave or self.transport is None or self.transport.is_closing():
            return
        if self._outgoing.pending:
            self.transport.write(self._outgoing.read())
