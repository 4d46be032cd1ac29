"""How a simulated client reaches nodes through circuits: STOREs for puts, inner connections for everything else.

It does what client/circuits/store_fanout and client/mesh/connections do, with calls back in place of awaits.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from restante.core.circuit.pool import STORES
from restante.model.ids import BlindedKey, NodeId, PayloadHash
from restante.testing.circuit_simulation.client_circuit import SimulatedCircuit, StreamUser
from restante.testing.circuit_simulation.hop import PUSHED, TICKET_BYTES, World
from restante.testing.circuit_simulation.pool import SimulatedPool
from restante.testing.mesh_simulation.engine import TIMEOUT_MS
from restante.testing.mesh_simulation.node import SimulatedNode
from restante.testing.mesh_simulation.values import Answered, Failed, Handle
from restante.wire.circuit.streams import MAX_STORE_NODES, NO_ANSWER, StoreAnswer, StoreRequest

STORE_TRIES: Final = 6
STORE_TIMEOUT_MS: Final = 30_000
INBOX: Final = "inbox"
EXITS: Final = 2
SEALED_BYTES: Final = 5_300
"""Ordinary mail: three cells (NETWORK 4)."""
_BLINDED: Final = BlindedKey(hashlib.sha256(b"a blinded key").digest())


@dataclass(slots=True, eq=False)
class _Batch:
    """One message and the nodes that have not answered yet."""

    waiting: dict[NodeId, tuple[Handle, Answered, Failed]] = field(default_factory=dict)
    tries: int = 0
    avoid: frozenset[NodeId] = frozenset()


class CircuitTransport:
    """Satisfies what the mesh simulation's clients need of the engine: requests, and puts that share an upload."""

    def __init__(self, world: World, pool: SimulatedPool) -> None:
        self.pool = pool
        self.on_push: Callable[[NodeId, PayloadHash], None] = lambda _node, _hash: None
        self.on_inner_lost: Callable[[NodeId], None] = lambda _node: None
        self._world = world
        self._batches: dict[tuple[int, int], _Batch] = {}
        self._inner: dict[NodeId, _Inner] = {}
        pool.on_rotating = self._rotate

    def put(self, message: int, target: SimulatedNode, handle: Handle, answered: Answered, failed: Failed) -> None:
        """Put to one node. Puts of the same message at the same moment share an upload."""
        key = (message, self._world.engine.now_ms)
        batch = self._batches.get(key)
        if batch is None or len(batch.waiting) >= MAX_STORE_NODES:
            batch = self._batches[key] = _Batch()
            self._world.engine.after(0, self._send, key, batch)
        batch.waiting[target.node_id] = handle, answered, failed

    def request(self, target: SimulatedNode, handle: Handle, answered: Answered, failed: Failed) -> None:
        """Ask one node over an inner connection."""
        inner = self._inner.get(target.node_id)
        if inner is None:
            inner = self._inner[target.node_id] = _Inner(self, self._world, target.node_id)
            inner.open()
        inner.ask(handle, answered, failed)

    def is_connected(self, node: NodeId) -> bool:
        inner = self._inner.get(node)
        return inner is not None and inner.is_open

    def lost(self, inner: "_Inner") -> None:
        if self._inner.get(inner.node_id) is inner:
            del self._inner[inner.node_id]
            self.on_inner_lost(inner.node_id)

    def _rotate(self, circuit: SimulatedCircuit) -> None:
        """Open the inner connections of an old circuit elsewhere first; the pool ends it when it is empty."""
        for inner in [each for each in self._inner.values() if each.circuit is circuit]:
            del self._inner[inner.node_id]
            self.on_inner_lost(inner.node_id)
            self._world.engine.after(TIMEOUT_MS, inner.close)

    def _send(self, key: tuple[int, int], batch: _Batch) -> None:
        if self._batches.get(key) is batch:
            del self._batches[key]
        self._try(batch)

    def _try(self, batch: _Batch) -> None:
        batch.tries += 1
        if not batch.waiting:
            return
        if batch.tries > STORE_TRIES:
            self._give_up(batch)
            return
        prefer_not = frozenset(batch.waiting)
        self.pool.acquire(STORES, lambda circuit: self._store(batch, circuit), avoid=batch.avoid, prefer_not=prefer_not)

    def _store(self, batch: _Batch, circuit: SimulatedCircuit | None) -> None:
        if circuit is None:
            if len(batch.avoid) < 2:
                self._give_up(batch)
                return
            batch.avoid = frozenset(list(batch.waiting)[:1])  # the others get further STOREs
            self._try(batch)
            return
        nodes = tuple(each for each in batch.waiting if each not in circuit.hops)
        batch.avoid = frozenset(batch.waiting)
        if not nodes or circuit.is_full:
            self._try(batch)
            return
        _Upload(self, self._world, batch, circuit, nodes)

    def uploaded(self, batch: _Batch) -> None:
        """An upload is over: nodes that have not answered get a further STORE."""
        batch.avoid = frozenset(batch.waiting)
        self._try(batch)

    def _give_up(self, batch: _Batch) -> None:
        waiting, batch.waiting = batch.waiting, {}
        for _, _, failed in waiting.values():
            failed()


class _Upload(StreamUser):
    def __init__(
        self,
        transport: CircuitTransport,
        world: World,
        batch: _Batch,
        circuit: SimulatedCircuit,
        nodes: tuple[NodeId, ...],
    ) -> None:
        self._transport = transport
        self._world = world
        self._batch = batch
        self._circuit = circuit
        self._nodes = nodes
        self._is_over = False
        self._ticket = world.tickets.issue({node: batch.waiting[node][0] for node in nodes})
        envelope = self._ticket.ljust(SEALED_BYTES, b"\0")
        self._stream = circuit.store(StoreRequest(nodes, _BLINDED, 0, envelope), self)
        world.engine.after(STORE_TIMEOUT_MS, self._timed_out)

    def on_answer(self, answer: StoreAnswer) -> None:
        if self._is_over or answer.place >= len(self._nodes):
            return
        waiting = self._batch.waiting.pop(self._nodes[answer.place], None)
        if waiting is None:
            return
        _, answered, failed = waiting
        if answer.frame_type == NO_ANSWER:
            failed()
        else:
            answered(self._world.tickets.take(answer.body))

    def on_over(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._transport.uploaded(self._batch)

    def _timed_out(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._circuit.close_stream(self._stream)
            self._transport.uploaded(self._batch)


class _Inner(StreamUser):
    """One inner connection to one node."""

    def __init__(self, transport: CircuitTransport, world: World, node_id: NodeId) -> None:
        self.node_id = node_id
        self.circuit: SimulatedCircuit | None = None
        self.is_open = False
        self._transport = transport
        self._world = world
        self._stream = 0
        self._asked: dict[bytes, tuple[Answered, Failed]] = {}

    def open(self) -> None:
        avoid = frozenset({self.node_id})
        self._transport.pool.acquire(INBOX, self._begin, avoid=avoid, wants_exits=EXITS)

    def ask(self, handle: Handle, answered: Answered, failed: Failed) -> None:
        ticket = self._world.tickets.issue({self.node_id: handle})
        self._asked[ticket] = answered, failed
        if self.is_open and self.circuit is not None:
            self.circuit.write(self._stream, ticket)
        self._world.engine.after(TIMEOUT_MS, self._timed_out, ticket)

    def close(self) -> None:
        if self.circuit is not None:
            self.circuit.close_stream(self._stream)
        self.on_over()

    def on_connected(self) -> None:
        self.is_open = True
        if self.circuit is not None:
            for ticket in self._asked:
                self.circuit.write(self._stream, ticket)

    def on_data(self, data: bytes) -> None:
        if data[:1] == PUSHED:
            self._transport.on_push(self.node_id, PayloadHash(data[1:]))
            return
        ticket, answer = data[1 : 1 + TICKET_BYTES], self._world.tickets.take(data[1 + TICKET_BYTES :])
        asked = self._asked.pop(ticket, None)
        self._world.tickets.forget(ticket)
        if asked is not None:
            asked[0](answer)

    def on_over(self) -> None:
        self.is_open = False
        self._transport.lost(self)
        asked, self._asked = self._asked, {}
        for _, failed in asked.values():
            failed()

    def _begin(self, circuit: SimulatedCircuit | None) -> None:
        if circuit is None or circuit.is_full:
            self.on_over()
            return
        self.circuit = circuit
        self._stream = circuit.begin(self.node_id, self)

    def _timed_out(self, ticket: bytes) -> None:
        """A node that does not answer in time is silent; the connection is given up, as a client's ping does."""
        asked = self._asked.pop(ticket, None)  # the ticket stays: the request may still arrive after a partition
        if asked is not None:
            asked[1]()
            self.close()
