"""How a simulated client reaches nodes through circuits: STOREs for puts, inner connections for everything else.

It does what client/circuits/store_fanout and client/mesh/connections do, with calls back in place of awaits.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from restante.core.circuit.fanout import Acquire, Effects, Fanout, GiveUp, NotSigned, Upload
from restante.core.circuit.pool import STORES
from restante.core.replication.responsibility import Take
from restante.model.ids import BlindedKey, InboxKey, NodeId, PayloadHash
from restante.testing.circuit_simulation.client_circuit import SimulatedCircuit, StreamUser
from restante.testing.circuit_simulation.inner_connection import InnerConnection
from restante.testing.circuit_simulation.pool import Got, NoCircuit, SimulatedPool
from restante.testing.circuit_simulation.world import World
from restante.testing.mesh_simulation.node import PutAnswer, SimulatedNode
from restante.testing.mesh_simulation.values import Answered, Failed, Handle
from restante.wire.circuit.streams import MAX_STORE_NODES, NO_ANSWER, StoreAnswer, StoreRequest

STORE_TIMEOUT_MS: Final = 30_000
"""These times are those of client/circuits and client/mesh."""
OVERLAP_MS: Final = 20_000
SEALED_BYTES: Final = 5_300
"""Ordinary mail: three cells (NETWORK 4)."""
_BLINDED: Final = BlindedKey(hashlib.sha256(b"a blinded key").digest())


@dataclass(slots=True, eq=False)
class _Batch:
    """One message and its nodes."""

    nodes: dict[NodeId, tuple[Handle, Answered, Failed]] = field(default_factory=dict)
    fanout: Fanout = field(default_factory=lambda: Fanout(()))
    unsigned: dict[NodeId, PutAnswer] = field(default_factory=dict)
    """What an exit passed on although no node signs it. No simulated exit makes it up: the last one will do."""

    def settle_unsigned(self, node: NodeId) -> None:
        _, answered, failed = self.nodes[node]
        if node in self.unsigned:
            answered(self.unsigned[node])
        else:
            failed()


class CircuitTransport:
    """Satisfies what the mesh simulation's clients need of the engine: requests, and puts that share an upload."""

    def __init__(self, world: World, pool: SimulatedPool) -> None:
        self.pool = pool
        self.on_push: Callable[[InboxKey, PayloadHash], None] = lambda _key, _hash: None
        self.on_lost: Callable[[set[int]], None] = lambda _buckets: None
        self._world = world
        self._batches: dict[tuple[int, int], _Batch] = {}
        self._inner: dict[NodeId, InnerConnection] = {}
        pool.on_rotating = self._rotate

    def put(self, message: int, target: SimulatedNode, handle: Handle, answered: Answered, failed: Failed) -> None:
        """Put to one node. Puts of the same message at the same moment share an upload."""
        key = (message, self._world.engine.now_ms)
        batch = self._batches.get(key)
        if batch is None or len(batch.nodes) >= MAX_STORE_NODES:
            batch = self._batches[key] = _Batch()
            self._world.engine.after(0, self._send, key, batch)
        batch.nodes[target.node_id] = handle, answered, failed

    def connection(self, target: NodeId) -> InnerConnection:
        """Return the inner connection to a node, new if there is none."""
        inner = self._inner.get(target)
        if inner is None:
            inner = self._inner[target] = InnerConnection(self, self._world, self.pool, target)
            inner.open()
        return inner

    def subscriptions(self, bucket: int) -> int:
        """Return how many nodes push new mail of this bucket."""
        return sum(bucket in each.subscribed for each in self._inner.values())

    def lost(self, inner: InnerConnection) -> None:
        """This connection has ended."""
        if self._inner.get(inner.node_id) is inner:
            del self._inner[inner.node_id]
            if inner.subscribed:
                self.on_lost(inner.subscribed)

    def _rotate(self, circuit: SimulatedCircuit) -> None:
        """Open the inner connections of an old circuit elsewhere first; the old ones still push for a while."""
        for inner in [each for each in self._inner.values() if each.circuit is circuit]:
            self.lost(inner)
            self._world.engine.after(OVERLAP_MS, inner.close)

    def _send(self, key: tuple[int, int], batch: _Batch) -> None:
        if self._batches.get(key) is batch:
            del self._batches[key]
        batch.fanout = Fanout(batch.nodes)
        self.execute(batch, batch.fanout.start())

    def execute(self, batch: _Batch, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Acquire(avoid, prefer_not):
                    self.pool.acquire(STORES, partial(self._acquired, batch), avoid=avoid, prefer_not=prefer_not)
                case NotSigned(node):
                    batch.settle_unsigned(node)
                case GiveUp(nodes):
                    for node in nodes:
                        batch.nodes[node][2](was_asked=False)

    def _acquired(self, batch: _Batch, circuit: Got) -> None:
        if circuit is NoCircuit.NO_HOPS_LEFT:
            self.execute(batch, batch.fanout.no_hops_left())
            return
        if isinstance(circuit, NoCircuit):
            self.execute(batch, batch.fanout.not_acquired())
            return
        effects = batch.fanout.acquired(circuit.hops)
        for effect in effects:
            if isinstance(effect, Upload):
                _Upload(self, self._world, batch, circuit, effect)
        self.execute(batch, effects)


class _Upload(StreamUser):
    def __init__(
        self, transport: CircuitTransport, world: World, batch: _Batch, circuit: SimulatedCircuit, upload: Upload
    ) -> None:
        self._transport = transport
        self._world = world
        self._batch = batch
        self._circuit = circuit
        self._number, self._nodes = upload
        self._is_over = False
        self._ticket = world.tickets.issue({node: batch.nodes[node][0] for node in self._nodes})
        envelope = self._ticket.ljust(SEALED_BYTES, b"\0")
        self._stream = circuit.store(StoreRequest(self._nodes, _BLINDED, 0, envelope), self)
        world.engine.after(STORE_TIMEOUT_MS, self._timed_out)

    def on_answer(self, answer: StoreAnswer) -> None:
        fanout, node = self._batch.fanout, self._nodes[answer.place]
        if self._is_over or not fanout.is_waiting_for(node):
            return
        if answer.frame_type == NO_ANSWER:
            self._transport.execute(self._batch, fanout.not_signed(self._number, node))
            return
        said = self._world.tickets.take(answer.body)
        if isinstance(said, PutAnswer) and said.take is not Take.ACCEPT:
            self._batch.unsigned[node] = said
            self._transport.execute(self._batch, fanout.not_signed(self._number, node))
        else:
            fanout.answered(self._number, node)
            self._batch.nodes[node][1](said)

    def on_over(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._transport.execute(self._batch, self._batch.fanout.ended(self._number))

    def _timed_out(self) -> None:
        if not self._is_over:
            self._circuit.close_stream(self._stream)
            self.on_over()
