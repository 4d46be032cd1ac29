"""A simulated client's circuit: hosts core/circuit's client end and streams, as client/circuits/circuit does."""

from collections.abc import Callable
from typing import Final

from restante.core.circuit import client_streams
from restante.core.circuit.client_end import ClientEnd, Hop
from restante.core.circuit.client_streams import ClientStreams
from restante.core.circuit.effects import Built, Deliver, DestroyForward, Effect, Ended, SendForward
from restante.core.circuit.table import Phase
from restante.model.ids import NodeId
from restante.policy.circuits.path import Path
from restante.testing.circuit_simulation.segment import FAR, NEAR, Frame, Kind, Segment
from restante.testing.circuit_simulation.world import World
from restante.testing.mesh_simulation.engine import Peer
from restante.wire.circuit.streams import StoreAnswer, StoreRequest

NO_NODE: Final = NodeId(bytes(32))


class StreamUser:
    """What a stream calls back. Every one of them is optional."""

    def on_answer(self, answer: StoreAnswer) -> None: ...

    def on_connected(self) -> None: ...

    def on_data(self, data: bytes) -> None: ...

    def on_over(self) -> None: ...


class SimulatedCircuit:
    """Satisfies `Listener` at the client's end."""

    def __init__(
        self,
        world: World,
        client: Peer,
        path: Path,
        *,
        on_built: Callable[["SimulatedCircuit"], None],
        on_ended: Callable[["SimulatedCircuit", int | None], None],
        on_freed: Callable[[], None],
    ) -> None:
        self.path = path
        self.hops = tuple(each.node_id for each in path.hops)
        self.users: dict[int, StreamUser] = {}
        self._on_built = on_built
        self._on_ended = on_ended
        self._on_freed = on_freed
        hops = [Hop(each.node_id, each.onion_key) for each in path.hops]
        self._end = ClientEnd(hops, entropy=world.dice.randbytes)
        self._streams = ClientStreams()
        guard = world.hops[path.guard.node_id]
        self._engine = world.engine
        self.is_guard_lost = False
        self.was_cut = False
        """Whether the guard ended it."""
        self.owed_since_ms: int | None = None
        """Since when an answer is owed and nothing has come (`policy.circuits.silence`)."""
        self.is_probed = False
        self._segment = Segment(world.engine, client, guard.node, world.line(client, guard.node))
        self._segment.listeners[NEAR] = self
        if guard.node.is_alive:
            guard.accept(self._segment)
        self._segment.send(FAR, Frame(Kind.CREATE, self._end.first_request, 1))

    @property
    def is_open(self) -> bool:
        return self._end.phase is not Phase.CLOSED

    @property
    def has_guard(self) -> bool:
        return self._end.has_guard

    @property
    def asked_hop(self) -> int:
        return self._end.asked_hop

    @property
    def is_full(self) -> bool:
        return self._streams.is_full

    @property
    def streams(self) -> int:
        return len(self._streams)

    def store(self, request: StoreRequest, user: StreamUser) -> int:
        stream, effects = self._streams.store(request)
        self.users[stream] = user
        self._run_streams(effects)
        return stream

    def begin(self, node_id: NodeId, user: StreamUser) -> int:
        stream, effects = self._streams.begin(node_id)
        self.users[stream] = user
        self._run_streams(effects)
        return stream

    def probe(self) -> None:
        self.is_probed = True
        if not self._streams.is_full:
            self.begin(NO_NODE, StreamUser())

    def write(self, stream: int, data: bytes) -> None:
        if self.is_open and stream in self.users:
            self._run_streams(self._streams.write(stream, data))

    def close_stream(self, stream: int) -> None:
        if self.users.pop(stream, None) is not None and self.is_open:
            self._run_streams(self._streams.close(stream))
            self._on_freed()

    def close(self) -> None:
        self._run(self._end.close())

    def on_frame(self, _segment: Segment, frame: Frame) -> None:
        match frame.kind:
            case Kind.CREATED:
                self._run(self._end.guard_answered(frame.body))
            case Kind.CELL:
                self._run(self._end.received(frame.body))
                self.owed_since_ms = self._engine.now_ms if self._streams.is_owed_an_answer else None
                self.is_probed = False
            case _:
                self.was_cut = True
                self._run(self._end.destroyed())

    def on_lost(self, _segment: Segment) -> None:
        self.is_guard_lost = True
        self._run(self._end.destroyed())

    def hang_up(self) -> None:
        """The client has ended its connection to the guard."""
        self._segment.crashed(NEAR)
        self._run(self._end.destroyed())

    def _run(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case SendForward(body):
                    self._segment.send(FAR, Frame(Kind.CELL, body))
                case Deliver(content, cell_class):
                    self._run_streams(self._streams.received(content, cell_class))
                case Built():
                    self._on_built(self)
                case DestroyForward():
                    self._segment.send(FAR, Frame(Kind.DESTROY))
                case Ended(failed_hop):
                    users, self.users = self.users, {}
                    self._on_ended(self, failed_hop)
                    for user in users.values():
                        user.on_over()

    def _run_streams(self, effects: client_streams.Effects) -> None:
        for effect in effects:
            match effect:
                case client_streams.SendCell(content, cell_class):
                    self._run(self._end.send(content, cell_class))
                    if self.owed_since_ms is None and self._streams.is_owed_an_answer:
                        self.owed_since_ms = self._engine.now_ms
                case client_streams.Answered(number, answer) if number in self.users:
                    self.users[number].on_answer(answer)
                case client_streams.Connected(number) if number in self.users:
                    self.users[number].on_connected()
                case client_streams.Received(number, data, cost):
                    self._run_streams(self._streams.consumed(number, cost))
                    if number in self.users:
                        self.users[number].on_data(data)
                case client_streams.StreamOver(number) if number in self.users:
                    self.users.pop(number).on_over()
                    self._on_freed()
                case client_streams.Break():
                    self.close()
