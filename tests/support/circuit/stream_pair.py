"""The streams of a client and of its exit, joined without layers between them; the node behind the exit echoes."""

from collections import deque

from restante.core.circuit import client_streams as client
from restante.core.circuit import exit_streams as exit_end
from restante.core.circuit.client_streams import ClientStreams
from restante.core.circuit.exit_streams import ByteBudget, ExitStreams
from restante.core.circuit.flow import CIRCUIT_WINDOW, STREAM_WINDOW
from restante.model.ids import NodeId
from restante.wire.circuit.streams import StoreAnswer, StoreRequest, StreamFailure
from restante.wire.frames.mesh_types import MeshFrameType


class StreamPair:
    """Runs effects until none are left. With `holds_writes` the node behind the exit takes nothing."""

    def __init__(self, *, echoes: bool = True, dials: bool = True, max_bytes: int = 10_000_000) -> None:
        self.client = ClientStreams()
        self.budget = ByteBudget(max_bytes)
        self.exit = ExitStreams(self.budget, now_s=0.0)
        self.echoes = echoes
        self.dials = dials
        self.holds_writes = False
        self.consumes = True
        self.now_s = 0.0
        self.requests: list[StoreRequest] = []
        self.answers: list[StoreAnswer] = []
        self.received: dict[int, bytearray] = {}
        self.unconsumed: list[tuple[int, int]] = []
        self.over: dict[int, object] = {}
        self.hung_up: list[int] = []
        self.broken = False
        self.stopped: set[int] = set()
        self.drained: list[int] = []
        self.cells = 0
        self.at_node: dict[int, bytearray] = {}

    def run(self, effects: tuple[client.Effect | exit_end.Effect, ...]) -> None:
        todo: deque[client.Effect | exit_end.Effect] = deque(effects)
        while todo:
            effect = todo.popleft()
            todo.extend(self._at_client(effect))
            todo.extend(self._at_exit(effect))

    def _at_client(self, effect: object) -> tuple[exit_end.Effect | client.Effect, ...]:
        match effect:
            case client.SendCell(content, cell_class):
                self.cells += 1
                return self.exit.received(content, cell_class, now_s=self.now_s)
            case client.Answered(_, answer):
                self.answers.append(answer)
            case client.Received(stream, data, cost):
                self.received.setdefault(stream, bytearray()).extend(data)
                if self.consumes:
                    return self.client.consumed(stream, cost)
                self.unconsumed.append((stream, cost))
            case client.StreamOver(stream, failed):
                self.over[stream] = failed
            case client.Drained(stream):
                self.drained.append(stream)
            case client.Break() | exit_end.Break():
                self.broken = True
        return ()

    def use_up_window(self, node: NodeId) -> int:
        """Open streams and write until the circuit has no credit left; return the last stream."""
        stream = 0
        for _ in range(CIRCUIT_WINDOW // STREAM_WINDOW):
            stream, effects = self.client.begin(node)
            self.run(effects)
            while not self.client.is_waiting(stream):
                self.run(self.client.write(stream, b"x"))
        return stream

    def _at_exit(  # noqa: PLR0911 - one per effect
        self, effect: object
    ) -> tuple[exit_end.Effect | client.Effect, ...]:
        match effect:
            case exit_end.Reply(content, cell_class):
                return self.client.received(content, cell_class)
            case exit_end.Store(stream, request):
                self.requests.append(request)
                return tuple(
                    each
                    for place in range(len(request.nodes))
                    for each in self.exit.answered(stream, StoreAnswer(place, MeshFrameType.MESH_STORED, b"receipt"))
                )
            case exit_end.Dial(stream, _):
                if self.dials:
                    return self.exit.connected(stream)
                return self.exit.dial_failed(stream, StreamFailure.UNREACHABLE)
            case exit_end.Write(stream, data, cost):
                self.at_node.setdefault(stream, bytearray()).extend(data)
                if self.holds_writes:
                    return ()
                echoed = self.exit.read(stream, data) if self.echoes else ()
                return (*self.exit.written(stream, cost), *echoed)
            case exit_end.HangUp(stream):
                self.hung_up.append(stream)
            case exit_end.StopReading(stream):
                self.stopped.add(stream)
            case exit_end.StartReading(stream):
                self.stopped.discard(stream)
        return ()
