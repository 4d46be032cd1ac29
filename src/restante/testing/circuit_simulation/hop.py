"""Circuits at a simulated node: hosts core/circuit's hop end and exit streams, as node/circuits does."""

from typing import Final, NamedTuple

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
from restante.crypto.onion import HOP_ENTROPY_BYTES, answer_handshake, onion_public_key
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.circuits.limits import HOP_IDLE_S, is_left_behind
from restante.testing.circuit_simulation.backoff import Line
from restante.testing.circuit_simulation.segment import FAR, NEAR, Frame, Kind, Segment
from restante.testing.circuit_simulation.world import TICKET_BYTES, World
from restante.testing.mesh_simulation.node import ListAnswer, SimulatedNode
from restante.wire.circuit.cells import MAX_HOPS
from restante.wire.circuit.streams import NO_ANSWER, StoreAnswer, StoreRequest, StreamFailure

UPLOAD_BYTES: Final = 64 * 1_048_576
ANSWERED: Final = 1
"""Stands for the frame type of a node's answer."""
ASK: Final = b"a"
REPLIED: Final = b"r"
PUSHED: Final = b"p"
ECHO: Final = b"e"
"""A round trip of the inner connection's handshake, or a heartbeat."""
PUT_LIMIT_MS: Final = 10_000
DIAL_LIMIT_MS: Final = 10_000
DIAL_AGAIN_MS: Final = 5_000
"""These times are those of node/circuits."""


class HopNode:
    """One node: its circuits, and the inner connections that end at it. A crash takes both."""

    def __init__(self, node: SimulatedNode, world: World, *, private_key: bytes, drop_rate: float) -> None:
        self.node = node
        self.world = world
        self.drop_rate = drop_rate
        self.budget = ByteBudget(UPLOAD_BYTES)
        self._segments: dict[tuple[Segment, int], None] = {}
        self.subscribers: dict[InboxKey, list[InnerServer]] = {}
        self.not_dialled_before_ms: dict[NodeId, int] = {}
        self._onion_keys = {onion_public_key(private_key): private_key}

    def accept(self, segment: Segment) -> None:
        """Another peer has dialled."""
        self.join(segment, FAR)
        segment.listeners[FAR] = _Incoming(self)

    def create(self, segment: Segment, frame: Frame) -> None:
        layer, answer = answer_handshake(
            frame.body,
            node_id=self.node.node_id,
            onion_keys=self._onion_keys,
            hop=frame.hop,
            entropy=self.world.dice.randbytes(HOP_ENTROPY_BYTES),
        )
        segment.listeners[FAR] = HopCircuit(self, segment, HopEnd(layer, random=self.world.dice.randbytes))
        segment.send(NEAR, Frame(Kind.CREATED, answer))

    def join(self, segment: Segment, end: int) -> None:
        self._segments[segment, end] = None

    def leave(self, segment: Segment, end: int) -> None:
        self._segments.pop((segment, end), None)

    def crash(self) -> None:
        for segment, end in self._segments:
            segment.crashed(end)
        self._segments.clear()
        self.subscribers.clear()
        self.not_dialled_before_ms.clear()
        self.world.crashed(self.node)
        self.budget = ByteBudget(UPLOAD_BYTES)

    def push(self, key: InboxKey, payload_hash: PayloadHash) -> None:
        for each in self.subscribers.get(key, ()):
            each.push(key, payload_hash)


class _Incoming:
    """A connection on which nothing came yet: a circuit request, or an inner connection."""

    def __init__(self, host: HopNode) -> None:
        self._host = host

    def on_frame(self, segment: Segment, frame: Frame) -> None:
        if frame.kind is Kind.CREATE:
            self._host.create(segment, frame)
        elif frame.kind is Kind.DATA:
            server = InnerServer(self._host, segment)
            segment.listeners[FAR] = server
            server.on_frame(segment, frame)

    def on_lost(self, segment: Segment) -> None:
        self._host.leave(segment, FAR)


class InnerServer:
    """The node's end of an inner connection: answers requests and pushes new mail."""

    def __init__(self, host: HopNode, segment: Segment) -> None:
        self.host = host
        self._segment = segment
        self._keys: set[InboxKey] = set()

    def on_frame(self, segment: Segment, frame: Frame) -> None:
        if frame.kind is Kind.DESTROY:
            self.on_lost(segment)
            segment.close()
            return
        if frame.body == ECHO:
            segment.send(NEAR, Frame(Kind.DATA, ECHO))
            return
        tickets, ticket = self.host.world.tickets, frame.body[1 : 1 + TICKET_BYTES]
        answer = tickets.handle(ticket, self.host.node.node_id)()
        if isinstance(answer, Subscribed):
            self.host.subscribers.setdefault(answer.key, []).append(self)
            self._keys.add(answer.key)
        segment.send(NEAR, Frame(Kind.DATA, REPLIED + ticket + tickets.keep(answer)))

    def on_lost(self, segment: Segment) -> None:
        self.host.leave(segment, FAR)
        for key in self._keys:
            listeners = self.host.subscribers.get(key, [])
            if self in listeners:
                listeners.remove(self)

    def push(self, key: InboxKey, payload_hash: PayloadHash) -> None:
        self._segment.send(NEAR, Frame(Kind.DATA, PUSHED + key + payload_hash))


class Subscribed(NamedTuple):
    """A node's answer to SUBSCRIBE: what it lists for the key now. From then on it pushes."""

    key: InboxKey
    listed: ListAnswer


class HopCircuit:
    """One circuit at one node; satisfies `Listener` on both sides."""

    def __init__(self, host: HopNode, back: Segment, end: HopEnd) -> None:
        self._host = host
        self._world = host.world
        self._back = back
        self._onward: Segment | None = None
        self._end = end
        self._lives = host.node.lives
        self._streams = ExitStreams(host.budget, now_s=self._now_s())
        self._inner: dict[int, Segment] = {}
        self._began_s = self._used_s = self._now_s()
        self._cells = 0
        self._watch()

    def on_frame(self, segment: Segment, frame: Frame) -> None:
        if segment is self._back:
            self._from_client(frame)
        elif segment is self._onward:
            self._from_next(frame)
        else:
            stream = next((number for number, each in self._inner.items() if each is segment), None)
            if stream is not None:
                self._exit(self._streams.read(stream, frame.body))

    def on_lost(self, segment: Segment) -> None:
        self._host.leave(segment, FAR if segment is self._back else NEAR)
        if segment is self._back:
            self._run(self._end.destroyed(by_client_side=True))
        elif segment is self._onward:
            is_extending = self._end.phase is Phase.EXTENDING
            self._run(self._end.extension_failed() if is_extending else self._end.destroyed(by_client_side=False))
        else:
            for stream in [number for number, each in self._inner.items() if each is segment]:
                del self._inner[stream]
                self._exit(self._streams.hung_up(stream))

    def _watch(self) -> None:
        """End the circuit if its client has left it behind."""
        if not self._is_living():
            return
        is_used = self._cells > MAX_HOPS - self._end.hop
        if is_left_behind(may_wait=not is_used, began_s=self._began_s, used_s=self._used_s, now_s=self._now_s()):
            self._run(self._end.close())
        else:
            self._world.engine.after(1_000 * HOP_IDLE_S, self._watch)

    def _from_client(self, frame: Frame) -> None:
        if frame.kind is Kind.DESTROY:
            self._run(self._end.destroyed(by_client_side=True))
        elif not self._drops():
            self._used_s = self._now_s()
            self._cells += 1
            self._run(self._end.forward_cell(frame.body))

    def _from_next(self, frame: Frame) -> None:
        if frame.kind is Kind.CREATED:
            self._run(self._end.next_created(frame.body))
        elif frame.kind is Kind.DESTROY:
            self._run(self._end.destroyed(by_client_side=False))
        elif not self._drops():
            self._run(self._end.backward_cell(frame.body))

    def _drops(self) -> bool:
        rate = self._host.drop_rate
        is_dropped = bool(rate) and self._world.dice.random() < rate
        self._world.drops += is_dropped
        return is_dropped

    def _run(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case SendForward(body) if self._onward is not None:
                    self._onward.send(FAR, Frame(Kind.CELL, body))
                case SendBackward(body):
                    self._back.send(NEAR, Frame(Kind.CELL, body))
                case CreateNext(node_id, request, hop):
                    line = self._world.line(self._host.node, self._world.hops[node_id].node)
                    self._onward = self._dial(node_id, line)
                    self._onward.send(FAR, Frame(Kind.CREATE, request, hop))
                case DestroyForward() if self._onward is not None:
                    self._onward.send(FAR, Frame(Kind.DESTROY))
                case DestroyBackward():
                    self._back.send(NEAR, Frame(Kind.DESTROY))
                case Deliver(content, cell_class):
                    self._exit(self._streams.received(content, cell_class, now_s=self._now_s()))
                case Ended():
                    self._exit(self._streams.closed())
                    self._host.leave(self._back, FAR)
                    if self._onward is not None:
                        self._host.leave(self._onward, NEAR)

    def _exit(self, effects: exit_streams.Effects) -> None:
        for effect in effects:
            match effect:
                case exit_streams.Reply(content, cell_class):
                    if self._end.phase is not Phase.CLOSED:
                        self._run(self._end.send(content, cell_class))
                case exit_streams.Store(stream, request):
                    for place in range(len(request.nodes)):
                        self._put(stream, request, place)
                case exit_streams.Dial(stream, node_id):
                    self._begin(stream, node_id)
                case exit_streams.Write(stream, data, cost):
                    if stream in self._inner:
                        self._inner[stream].send(FAR, Frame(Kind.DATA, data))
                    self._exit(self._streams.written(stream, cost))
                case exit_streams.HangUp(stream):
                    if (inner := self._inner.pop(stream, None)) is not None:
                        inner.send(FAR, Frame(Kind.DESTROY))
                        self._host.leave(inner, NEAR)
                case exit_streams.Break():
                    self._run(self._end.close())

    def _put(self, stream: int, request: StoreRequest, place: int) -> None:
        node_id, tickets, host = request.nodes[place], self._world.tickets, self._host

        def answered(answer: object) -> None:
            self._stored(stream, StoreAnswer(place, ANSWERED, tickets.keep(answer)))

        def failed() -> None:
            host.not_dialled_before_ms[node_id] = self._world.engine.now_ms + DIAL_AGAIN_MS
            self._stored(stream, StoreAnswer(place, NO_ANSWER, b""))

        if self._world.engine.now_ms < host.not_dialled_before_ms.get(node_id, 0):
            self._stored(stream, StoreAnswer(place, NO_ANSWER, b""))
            return
        target = self._world.hops[node_id].node
        handle = tickets.handle(request.envelope, node_id)
        self._world.exchange(host.node, target, handle, answered, failed, limit_ms=PUT_LIMIT_MS)

    def _stored(self, stream: int, answer: StoreAnswer) -> None:
        if self._is_living():
            self._exit(self._streams.answered(stream, answer))

    def _begin(self, stream: int, node_id: NodeId) -> None:
        """Dial: one round trip, then the inner connection stands, and its handshake follows."""
        if node_id not in self._world.hops:
            self._exit(self._streams.dial_failed(stream, StreamFailure.UNKNOWN_NODE))
            return
        target = self._world.hops[node_id].node

        def connected(_answer: object) -> None:
            if self._is_living():
                self._inner[stream] = self._dial(node_id, Line())
                self._exit(self._streams.connected(stream))

        def failed() -> None:
            if self._is_living():
                self._exit(self._streams.dial_failed(stream, StreamFailure.UNREACHABLE))

        self._world.exchange(self._host.node, target, lambda: None, connected, failed, limit_ms=DIAL_LIMIT_MS)

    def _dial(self, node_id: NodeId, line: Line) -> Segment:
        other = self._world.hops[node_id]
        segment = Segment(self._world.engine, self._host.node, other.node, line)
        segment.listeners[NEAR] = self
        self._host.join(segment, NEAR)
        if other.node.is_alive:
            other.accept(segment)
        return segment

    def _is_living(self) -> bool:
        return self._lives == self._host.node.lives and self._end.phase is not Phase.CLOSED

    def _now_s(self) -> float:
        return self._world.engine.now_ms / 1_000
