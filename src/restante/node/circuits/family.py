"""The frame family of circuits: CREATE, cells and DESTROY from clients and other hops (SPEC 11.1, 11.5).

Decides how many circuits and handshakes a connection, a source and the node may have. What a circuit does is in
`hop_circuit`. Nothing is written to disk and nothing about a circuit is logged.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from restante.core.circuit.cell_queues import CellBudget
from restante.core.circuit.exit_streams import ByteBudget
from restante.core.fair_queue import SOURCE_TURN, FairQueue
from restante.crypto.identity import Identity
from restante.crypto.onion import HOP_ENTROPY_BYTES, answer_handshake
from restante.model.errors import RestanteError
from restante.model.ids import NodeKey
from restante.model.node_descriptor import NodeDescriptor
from restante.model.sources import Source
from restante.node.circuits.dialling import SharedConnections
from restante.node.circuits.exit_connections import Directory, ExitConnections
from restante.node.circuits.hop_circuit import HopCircuit
from restante.node.frame_family import Peer
from restante.policy.circuits.create_limits import MAX_WAITING, MAX_WAITING_PER_SOURCE, core_meter, create_meter
from restante.policy.circuits.limits import CircuitLimits, is_crowded, is_left_behind, is_spare, may_create
from restante.policy.connection_limits import RelayLimits
from restante.ports.entropy import Entropy
from restante.runtime.transport.cell_link import CellLink, Side
from restante.runtime.transport.circuit_connection import CircuitConnection
from restante.wire.circuit.frames import (
    FROM_DIALLER,
    CircuitFrameType,
    Create,
    check_circuit_id,
    decode_create,
    encode_circuit_frame,
    encode_created,
    encode_destroy,
)
from restante.wire.frames.codec import RawFrame
from restante.wire.inbox_keys import node_id_of

SWEEP_S: Final = 5.0
HANDSHAKE_S: Final = 0.000_2
"""About what one handshake costs; the meter is charged with what it took."""

OnionKeys = Callable[[], Mapping[bytes, bytes]]
"""Return the onion keys that are good now, public to private."""


class _Waiting(NamedTuple):
    connection: "CircuitPeer"
    source: Source
    side: "_PeerSide"
    create: Create


class CircuitFamily:
    """Satisfies `node.frame_family.FrameFamily`. `directory` returns descriptors of nodes that this node knows."""

    frame_types = FROM_DIALLER

    def __init__(
        self,
        identity: Identity,
        directory: Directory,
        onion_keys: OnionKeys,
        *,
        entropy: Entropy,
        circuit_limits: CircuitLimits,
        limits: RelayLimits,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._identity = identity
        self._directory = directory
        self._own_id = node_id_of(identity.node_key)
        self._onion_keys = onion_keys
        self.entropy = entropy
        self.limits = circuit_limits
        self._relay_limits = limits
        self.cells: CellBudget[Side] = CellBudget(circuit_limits.max_queued_bytes)
        self.uploads = ByteBudget(circuit_limits.max_queued_bytes)
        self.next_hops: SharedConnections[CircuitConnection] = SharedConnections(
            lambda node: None if node == self._own_id else directory(node),
            self._connect,
            is_busy=lambda connection: connection.circuits > 0,
        )
        self.exits = ExitConnections(identity, directory, own_id=self._own_id, limits=limits)
        self.circuits: dict[HopCircuit, Source] = {}
        """Each with the source whose share it takes."""
        self._circuits_of: Counter[Source] = Counter()
        self.created = 0
        self.refused = 0
        self.handshakes_s = 0.0
        """CPU time that handshakes took, failed ones included."""
        self._waiting: FairQueue[_Waiting] = FairQueue()
        self._waiting_of: Counter[Source] = Counter()
        self._core = core_meter(self.now_s())
        self._draining: asyncio.Handle | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    def connect(self, peer: Peer) -> "CircuitPeer":
        return CircuitPeer(self, peer)

    def now_s(self) -> float:
        return self._loop.time()

    def knows(self, node: NodeKey) -> bool:
        """Return whether the key is that of a node of the directory. Anybody can make and prove other keys."""
        return self._directory(node_id_of(node)) is not None

    def forget(self, circuit: HopCircuit) -> None:
        source = self.circuits.pop(circuit, None)
        if source is not None:
            self._circuits_of[source] -= 1
            if not self._circuits_of[source]:
                del self._circuits_of[source]

    async def stop(self) -> None:
        """End all circuits and the connections to other nodes."""
        for handle in (self._draining, self._sweeping):
            if handle is not None:
                handle.cancel()
        for circuit in tuple(self.circuits):
            circuit.close()
        await self.next_hops.close()
        await self.exits.close()

    def enqueue(self, connection: "CircuitPeer", side: "_PeerSide", create: Create) -> bool:
        """Queue a handshake; return False if the node or the source has too many waiting."""
        source, waiting = connection.source, len(self._waiting)
        is_full = waiting >= MAX_WAITING or self._waiting_of[source] >= MAX_WAITING_PER_SOURCE
        of_source = self._circuits_of[source] + self._waiting_of[source]
        if is_full or not may_create(self.limits, taken=len(self.circuits) + waiting, of_source=of_source):
            self.refused += 1
            return False
        self._waiting_of[source] += 1
        self._waiting.add(source, connection, _Waiting(connection, source, side, create), cost=SOURCE_TURN)
        if self._draining is None:
            self._draining = self._loop.call_soon(self._drain)
        return True

    def _drain(self) -> None:
        """Answer one handshake, whose turn it is, while the node's share of a core lasts; then cells have a turn."""
        self._draining = None
        if not len(self._waiting):
            self._waiting_of.clear()
            return
        if not self._core.has(HANDSHAKE_S, self.now_s()):
            wait_s = self._core.wait_ms(HANDSHAKE_S) / 1_000
            self._draining = self._loop.call_later(wait_s, self._drain)
            return
        for waiting in self._waiting.take(1):
            self._waiting_of[waiting.source] -= 1
            self._answer(waiting)
        self._draining = self._loop.call_soon(self._drain)

    def _answer(self, waiting: _Waiting) -> None:
        connection, source, side, create = waiting
        circuit = side.circuit
        if not connection.expects(side):
            return  # destroyed while it waited; another CREATE may have taken its number
        began_s = time.thread_time()  # work, not the time that other processes took meanwhile
        try:
            layer, answer = answer_handshake(
                create.request,
                node_id=self._own_id,
                onion_keys=self._onion_keys(),
                hop=create.hop,
                entropy=self.entropy.draw(HOP_ENTROPY_BYTES),
            )
        except RestanteError:
            connection.refuse(circuit)
            return
        finally:
            took_s = time.thread_time() - began_s
            self.handshakes_s += took_s
            self._core.spend(took_s, self.now_s())
        made = HopCircuit(
            self,
            layer,
            to_previous=lambda body: connection.send_cell(circuit, body),
            destroy_previous=lambda: connection.send_destroy(circuit),
            now_s=self.now_s(),
        )
        self.circuits[made] = source
        self._circuits_of[source] += 1
        self.created += 1
        connection.created(circuit, made, answer)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """End circuits that their clients have left behind."""
        now_s, crowded = self.now_s(), is_crowded(self.limits, taken=len(self.circuits))
        for circuit in tuple(self.circuits):
            spare = is_spare(is_used=circuit.is_used, is_extended=circuit.is_extended, is_crowded=crowded)
            if is_left_behind(may_wait=spare, began_s=circuit.began_s, used_s=circuit.used_s, now_s=now_s):
                circuit.close()
        self._sweeping = self._loop.call_later(SWEEP_S, self._sweep) if self.circuits else None

    async def _connect(self, host: str, port: int, descriptor: NodeDescriptor) -> CircuitConnection:
        connection = await CircuitConnection.connect(host, port, node=descriptor.node_key, limits=self._relay_limits)
        connection.use(self.cells, self.entropy)
        connection.authenticate(self._identity)
        return connection


class _PeerSide:
    """The queue of one circuit towards its client."""

    __slots__ = ("_connection", "circuit")

    def __init__(self, connection: "CircuitPeer", circuit: int) -> None:
        self._connection = connection
        self.circuit = circuit

    def on_overflow(self) -> None:
        self._connection.overflowed(self.circuit)


class CircuitPeer:
    """The circuits of one connection, whose peer is a client or the hop before this one."""

    def __init__(self, family: CircuitFamily, peer: Peer) -> None:
        self._family = family
        self.peer = peer
        self.source = peer.source
        """Whose share of the circuits is used: another node has its own, since it passes on those of many clients."""
        self._circuits: dict[int, HopCircuit | None] = {}
        self._sides: dict[int, _PeerSide] = {}
        self._link = CellLink(peer.send, lambda: peer.can_write, family.cells)
        self._is_node = False
        self._meter = create_meter(is_node=False, now_s=family.now_s())

    def handle(self, frames: Sequence[RawFrame], *, now_s: float) -> None:
        for frame in frames:
            circuit = self._circuits.get(frame.request)
            if frame.type == CircuitFrameType.CELL:
                if circuit is not None:
                    circuit.forward_cell(frame.body)
            elif frame.type == CircuitFrameType.CREATE:
                self._create(frame, now_s)
            elif frame.request in self._circuits:
                self._forget(frame.request)
                if circuit is not None:
                    circuit.destroyed_by_previous()

    def window_opened(self) -> None:
        self._link.window_opened()

    def lost(self) -> None:
        circuits, self._circuits = self._circuits, {}
        for number, circuit in circuits.items():
            self._link.forget(self._sides[number])
            if circuit is not None:
                circuit.destroyed_by_previous()
        self._sides.clear()

    def expects(self, side: _PeerSide) -> bool:
        return self._sides.get(side.circuit) is side

    def created(self, number: int, circuit: HopCircuit, answer: bytes) -> None:
        self._circuits[number] = circuit
        self._link.send(self._sides[number], encode_created(number, answer, self._family.entropy.draw))

    def refuse(self, number: int) -> None:
        """Answer a request with DESTROY, which says nothing."""
        self.send_destroy(number)

    def send_cell(self, number: int, body: bytes) -> None:
        side = self._sides.get(number)
        if side is not None:
            self._link.send(side, encode_circuit_frame(CircuitFrameType.CELL, number, body))

    def send_destroy(self, number: int) -> None:
        if number in self._circuits:
            self._forget(number)
            self.peer.send(encode_destroy(number, self._family.entropy.draw))

    def overflowed(self, number: int) -> None:
        circuit = self._circuits.get(number)
        if circuit is not None:
            circuit.close()

    def _create(self, frame: RawFrame, now_s: float) -> None:
        number = check_circuit_id(frame.request)
        create = decode_create(frame.body)
        if number in self._circuits:
            circuit = self._circuits[number]
            if circuit is not None:
                circuit.close()
            return
        key = self.peer.node_key
        if not self._is_node and key is not None and self._family.knows(key):
            self._is_node, self.source = True, Source(key)
            self._meter = create_meter(is_node=True, now_s=now_s)
        most = self._family.limits.max_circuits if self._is_node else self._family.limits.max_circuits_per_client
        self._circuits[number] = None
        side = self._sides[number] = _PeerSide(self, number)
        if len(self._circuits) > most or not self._meter.take(1, now_s):
            self._family.refused += 1
            self.send_destroy(number)
        elif not self._family.enqueue(self, side, create):
            self.send_destroy(number)

    def _forget(self, number: int) -> None:
        self._circuits.pop(number, None)
        side = self._sides.pop(number, None)
        if side is not None:
            self._link.forget(side)
