"""An asyncio transport over one stream of a circuit, so that a TLS connection to a node runs through it unchanged.

The inner TLS ends at the node: the exit passes on bytes that it can't read, and the binding that proofs sign belongs to
the inner connection (SPEC 11.6).
"""

import asyncio
from typing import Any

from restante.client.circuits.circuit import ClientCircuit
from restante.model.ids import NodeId


class StreamTransport(asyncio.Transport):
    def __init__(self, circuit: ClientCircuit, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self._circuit = circuit
        self._protocol = protocol
        self._stream = 0
        self._loop = asyncio.get_running_loop()
        self._is_closing = False
        self._is_reading = True
        self._is_blocked = False
        self._held: list[tuple[bytes, int]] = []

    async def open(self, node_id: NodeId) -> None:
        """Let the exit connect to the node; then the protocol starts."""
        self._stream, stream = await self._circuit.begin(node_id)
        stream.on_data = self._received
        stream.on_drained = self._drained
        stream.on_over = self._over
        self._protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        if not self._circuit.write(self._stream, bytes(data)) and not self._is_blocked:
            self._is_blocked = True
            self._protocol.pause_writing()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._circuit.close_stream(self._stream)
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        held, self._held = self._held, []
        for data, cost in held:
            self._received(data, cost)

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ARG002 - a stream has no address
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The windows of the circuit are the limits."""

    def _received(self, data: bytes, cost: int) -> None:
        if not self._is_reading:
            self._held.append((data, cost))
            return
        at = 0
        while at < len(data) and not self._is_closing:
            buffer = memoryview(self._protocol.get_buffer(-1))
            size = min(len(buffer), len(data) - at)
            buffer[:size] = data[at : at + size]
            self._hand_on(size)
            at += size
        self._circuit.consumed(self._stream, cost)

    def _hand_on(self, size: int) -> None:
        """Let the protocol read. If it fails, its stream ends, and no other stream of the guard's connection does."""
        try:
            self._protocol.buffer_updated(size)
        except Exception as error:  # noqa: BLE001 - as every transport of asyncio does
            self._loop.call_exception_handler({"message": "the protocol of a stream failed", "exception": error})
            self.abort()

    def _drained(self) -> None:
        if self._is_blocked:
            self._is_blocked = False
            self._protocol.resume_writing()

    def _over(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)
