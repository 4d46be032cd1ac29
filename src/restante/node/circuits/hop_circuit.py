"""One circuit at this node: executes the effects of `core.circuit.hop_end` and, at an exit, of `exit_streams`.

Everything that links its two sides is in this object and dies with it (SPEC 11.5).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from restante.core.circuit import exit_streams
from restante.core.circuit.effects import (
    CreateNext,
    Deliver,
    DestroyBackward,
    DestroyForward,
    Effect,
    Ended,
    SendBackward,
    SendForward,
)
from restante.core.circuit.exit_streams import ByteBudget, ExitStreams
from restante.core.circuit.hop_end import HopEnd
from restante.core.circuit.table import Phase
from restante.crypto.onion import Layer
from restante.model.errors import LocalProtocolError
from restante.model.ids import NodeId
from restante.node.circuits.dialling import SharedConnections
from restante.node.circuits.exit_connections import ExitConnections, NodeSocket
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.transport.circuit_connection import CircuitConnection
from restante.wire.circuit.cells import MAX_HOPS
from restante.wire.circuit.frames import Create
from restante.wire.circuit.streams import StoreRequest


class HopHost(Protocol):
    """What a circuit needs of its node."""

    entropy: Entropy
    uploads: ByteBudget
    next_hops: SharedConnections[CircuitConnection]
    exits: ExitConnections

    def now_s(self) -> float: ...

    def forget(self, circuit: "HopCircuit") -> None: ...


class HopCircuit:
    """`to_previous` sends a cell body towards the client, `destroy_previous` sends DESTROY there."""

    def __init__(
        self,
        host: HopHost,
        layer: Layer,
        *,
        to_previous: Callable[[bytes], None],
        destroy_previous: Callable[[], None],
        now_s: float,
    ) -> None:
        self._host = host
        self._end = HopEnd(layer, random=host.entropy.draw)
        self._to_previous = to_previous
        self._destroy_previous = destroy_previous
        self._next: tuple[CircuitConnection, int] | None = None
        self._streams: ExitStreams | None = None
        self._sockets: dict[int, NodeSocket] = {}
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.began_s = now_s
        self.used_s = now_s
        self._cells = 0

    @property
    def is_used(self) -> bool:
        """Whether more cells came than those that build it further."""
        return self._cells > MAX_HOPS - self._end.hop

    @property
    def is_extended(self) -> bool:
        """Whether this node passes its cells on to a next hop."""
        return self._end.phase is Phase.RELAYING

    def forward_cell(self, body: bytes) -> None:
        """A cell came from the client's side."""
        self.used_s = self._host.now_s()
        self._cells += 1
        self._run(self._end.forward_cell(body))

    def on_cell(self, body: bytes) -> None:
        """A cell came from the next hop."""
        self._run(self._end.backward_cell(body))

    def on_created(self, answer: bytes) -> None:
        self._run(self._end.next_created(answer))

    def on_destroyed(self) -> None:
        """The next hop ended the circuit, or the connection to it is gone."""
        self._next = None
        self._run(self._end.destroyed(by_client_side=False))

    def destroyed_by_previous(self) -> None:
        self._run(self._end.destroyed(by_client_side=True))

    def on_overflow(self) -> None:
        self.close()

    def close(self) -> None:
        """End the circuit on both sides: age, idle time, a full queue or the end of the node."""
        self._run(self._end.close())

    def _run(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case SendForward(body):
                    if self._next is not None:
                        self._next[0].send_cell(self, self._next[1], body)
                case SendBackward(body):
                    self._to_previous(body)
                case Deliver(content, cell_class):
                    if self._streams is None:
                        self._streams = ExitStreams(self._host.uploads, now_s=self._host.now_s())
                    self._run_streams(self._streams.received(content, cell_class, now_s=self._host.now_s()))
                case CreateNext():
                    self._start(self._extend(effect))
                case DestroyForward():
                    if self._next is not None:
                        self._next[0].destroy(self, self._next[1])
                        self._next = None
                case DestroyBackward():
                    self._destroy_previous()
                case Ended():
                    self._ended()
                case _:
                    raise LocalProtocolError(f"a hop has no use for {type(effect).__name__}")

    async def _extend(self, wanted: CreateNext) -> None:
        try:
            connection = await self._host.next_hops.get(wanted.node_id)
            self._next = connection, connection.create(self, Create(wanted.hop, wanted.request))
        except AttemptFailed:
            self._run(self._end.extension_failed())

    def _run_streams(self, effects: exit_streams.Effects) -> None:
        for effect in effects:
            match effect:
                case exit_streams.Reply(content, cell_class):
                    self._run(self._end.send(content, cell_class))
                case exit_streams.Store(stream, request):
                    self._store(stream, request)
                case exit_streams.Dial(stream, node_id):
                    self._dials[stream] = self._start(self._dial(stream, node_id))
                case exit_streams.Write(stream, data, cost):
                    if stream in self._sockets:
                        self._sockets[stream].write(data, cost)
                case exit_streams.StopReading(stream) | exit_streams.StartReading(stream):
                    if stream in self._sockets:
                        self._sockets[stream].switch_reading(on=isinstance(effect, exit_streams.StartReading))
                case exit_streams.HangUp(stream):
                    self._hang_up(stream)
                case exit_streams.Break():
                    self.close()

    def _store(self, stream: int, request: StoreRequest) -> None:
        for place in range(len(request.nodes)):
            self._start(self._put(stream, request, place))

    async def _put(self, stream: int, request: StoreRequest, place: int) -> None:
        answer = await self._host.exits.put(self, request, place)
        if self._streams is not None:
            self._run_streams(self._streams.answered(stream, answer))

    async def _dial(self, stream: int, node_id: NodeId) -> None:
        socket = NodeSocket(
            on_data=lambda data: self._on_streams(lambda streams: streams.read(stream, data)),
            on_written=lambda cost: self._on_streams(lambda streams: streams.written(stream, cost)),
            on_closed=lambda: self._on_streams(lambda streams: streams.hung_up(stream)),
        )
        failure = await self._host.exits.dial(node_id, socket)
        del self._dials[stream]  # until here the end of the stream ends the dial
        if failure is None:
            self._sockets[stream] = socket
            self._on_streams(lambda streams: streams.connected(stream))
            socket.start()
        else:
            self._on_streams(lambda streams: streams.dial_failed(stream, failure))

    def _hang_up(self, stream: int) -> None:
        dial = self._dials.pop(stream, None)
        if dial is not None:
            dial.cancel()
        socket = self._sockets.pop(stream, None)
        if socket is not None:
            socket.close()

    def _on_streams(self, act: Callable[[ExitStreams], exit_streams.Effects]) -> None:
        if self._streams is not None:
            self._run_streams(act(self._streams))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _ended(self) -> None:
        self._host.forget(self)
        self._host.exits.forget(self)
        streams, self._streams = self._streams, None
        if streams is not None:
            self._run_streams(streams.closed())
        for task in tuple(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()
