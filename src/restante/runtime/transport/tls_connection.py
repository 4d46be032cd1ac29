"""One end of a TLS connection that carries frames; the node's and the client's connections derive from it.

TLS runs over memory buffers here, because asyncio's own wrapper keeps 256 KiB for every connection, idle or not. The
subclass decides what frames mean.
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
    """Scratch buffers. All connections of one thread, and so of one event loop, share them."""

    def __init__(self) -> None:
        self.received = memoryview(bytearray(BUFFER_BYTES))
        self.decrypted = memoryview(bytearray(BUFFER_BYTES))


_BUFFERS: Final = _Buffers()


class TlsConnection(asyncio.BufferedProtocol):
    """A peer that breaks TLS or the frame format gets `on_fault`; other connections are not affected."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.encryption = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        # Given a buffer it returns a number, whatever its stub says.
        self._read_into = cast("Callable[[int, memoryview], int]", self.encryption.read)
        self._splitter = FrameSplitter()
        self.transport: asyncio.Transport | None = None
        self.is_secure = False
        self._is_half_closed = False
        self.held_partial_bytes = 0

    def on_secured(self) -> None:
        """The TLS handshake is done and no byte of ours was sent since. `abort` here sends none."""

    def on_frames(self, frames: list[RawFrame], *, partial_bytes: int) -> None:
        """Handle the frames that have arrived whole; `partial_bytes` of the next one are buffered."""

    def on_fault(self, error: RestanteError) -> None:
        """The peer broke TLS or the frame format; the subclass ends the connection."""

    def on_lost(self) -> None:
        """The connection has ended, for whatever cause."""

    def send(self, raw: bytes) -> None:
        """Encrypt and queue bytes; do nothing on a connection that has ended."""
        if self.transport is None or not self.is_secure or self._is_half_closed or self.transport.is_closing():
            return
        sent = self.encryption.write(raw)
        while sent < len(raw):
            sent += self.encryption.write(memoryview(raw)[sent:])
        self.transport.write(self._outgoing.read())

    def disconnect(self) -> None:
        """End the connection after what was sent has been written."""
        if self.transport is None:
            return
        if self.is_secure:
            with contextlib.suppress(ssl.SSLError):  # ours is written; the peer's close_notify is usually still to come
                self.encryption.unwrap()
            self._send_outgoing()
        self.transport.close()

    def close_gracefully(self) -> None:
        """Send nothing more, and end when the peer closes.

        Closing with unread input makes TCP send RST, and the peer may lose our last frames.
        """
        if self.transport is None or self.transport.is_closing() or self._is_half_closed:
            return
        if not self.is_secure:
            self.transport.close()
            return
        with contextlib.suppress(ssl.SSLError):
            self.encryption.unwrap()
        self._send_outgoing()
        self._is_half_closed = True
        try:
            self.transport.write_eof()
        except OSError:  # the peer has reset the connection, and the loop has not looked since
            self.transport.abort()
        else:
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
        if self._is_half_closed:
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
            self._send_outgoing()  # the TLS alert
            raise RemoteProtocolError("no TLS 1.3 with a certificate of ours") from error
        self.is_secure = True
        self.on_secured()
        self._send_outgoing()
        return self.transport is not None and not self.transport.is_closing()

    def _decrypt(self) -> None:
        """Decrypt all input. A full buffer is handed on at once, the rest when there is no more input."""
        decrypted = _BUFFERS.decrypted
        filled = 0
        is_over = False
        try:
            while (got := self._read_into(BUFFER_BYTES - filled, decrypted[filled:])) > 0:
                filled += got
                if filled == BUFFER_BYTES:
                    self._hand_on(decrypted)
                    filled = 0
                elif not self._incoming.pending and not self.encryption.pending():
                    break  # one more read would cost as much as a small frame
            else:
                is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            is_over = True
        except ssl.SSLError as error:
            raise RemoteProtocolError("what came is not what was encrypted") from error
        if filled:
            self._hand_on(decrypted[:filled])
        if is_over:
            self.disconnect()
        elif self._outgoing.pending:
            self._send_outgoing()

    def _hand_on(self, decrypted: memoryview) -> None:
        frames = self._splitter.feed(decrypted)
        self.on_frames(frames, partial_bytes=self._splitter.partial_bytes)

    def _send_outgoing(self) -> None:
        if self._is_half_closed or self.transport is None or self.transport.is_closing():
            return
        if self._outgoing.pending:
            self.transport.write(self._outgoing.read())
