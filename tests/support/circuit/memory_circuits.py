"""Circuits of a client over a mesh in memory, on virtual time, and what each exit sees of them.

Pool, rotation, guards, paths, fan-out and inner connections are the client's own. Only the wire is not there: a circuit
is built at once, and its exit reaches nodes in this memory.
"""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from restante.client.circuits.circuit import ClientCircuit
from restante.client.circuits.mesh_circuits import MeshCircuits
from restante.client.circuits.pool import CircuitPool
from restante.client.mesh import host
from restante.model.ids import BlindedKey, NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.model.places import RelayPlace
from restante.policy.circuits.client_rates import circuit_meter
from restante.policy.circuits.path import Path
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.testing.memory_mesh import MemoryMesh, MemoryMeshConnection
from restante.wire.circuit.streams import StoreAnswer, StoreRequest
from restante.wire.frames.mesh_storage import MeshStored, NotResponsible, WrongBucket

BUILD_S = 0.01


@dataclass(frozen=True, slots=True)
class Begun:
    """An inner connection, as its exit sees it."""

    at_ms: int
    node: NodeId


@dataclass(frozen=True, slots=True)
class Stored:
    """A STORE, as its exit sees it."""

    at_ms: int
    blinded: BlindedKey
    bucket: int
    nodes: tuple[NodeId, ...]


@dataclass(slots=True, eq=False)
class SeenCircuit:
    """What one exit sees of one circuit: who extended it there, and what it was asked for."""

    exit_id: NodeId
    previous: NodeId
    asked: list[Begun | Stored] = field(default_factory=list)
    connections: list[MemoryMeshConnection] = field(default_factory=list)
    """Its inner connections, as the storage nodes know them: who has exit and nodes can join what both saw."""
    uses: set[str] = field(default_factory=set)
    """Not seen by the exit: what the client used the circuit for."""


class MemoryCircuit:
    """Satisfies what pool, fan-out and `MemoryCircuits` need of a `ClientCircuit`."""

    owed_since_s = None
    was_cut = False
    has_guard = True

    def __init__(self, mesh: MemoryMesh, path: Path, seen: SeenCircuit, *, changed: Callable[[], None]) -> None:
        self.path = path
        self.hops = tuple(each.node_id for each in path.hops)
        self.seen = seen
        self.is_open = True
        self.streams = 0
        self.meter = circuit_meter(asyncio.get_running_loop().time())
        self.on_ended: Callable[[MemoryCircuit], None] = lambda _: None
        self._mesh = mesh
        self._changed = changed
        self._inner: set[MemoryMeshConnection] = set()
        self._watching: set[asyncio.Task[None]] = set()

    async def open(self, node: NodeDescriptor) -> MemoryMeshConnection:
        self.seen.asked.append(Begun(self._mesh.clock.now_ms(), node.node_id))
        connection = await self._mesh.connect(_place_of(node))
        self.streams += 1
        self._inner.add(connection)
        self.seen.connections.append(connection)
        task = asyncio.create_task(self._watch(connection))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        return connection

    async def store(self, request: StoreRequest) -> AsyncIterator[StoreAnswer]:
        now_ms = self._mesh.clock.now_ms()
        self.seen.asked.append(Stored(now_ms, request.blinded, request.bucket, request.nodes))
        self.streams += 1
        try:
            by_id = {each.node_id: each for each in self._mesh.descriptors()}
            for place, node_id in enumerate(request.nodes):
                connection = await self._mesh.connect(_place_of(by_id[node_id]))
                answer = await connection.put(request.blinded, request.bucket, request.envelope)
                frame = answer if isinstance(answer, WrongBucket | NotResponsible) else MeshStored(receipt=answer)
                yield StoreAnswer(place, frame.TYPE, frame.body())
        finally:
            self.streams -= 1
            self._changed()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            for connection in tuple(self._inner):
                connection.lose()
            self.on_ended(self)

    async def _watch(self, connection: MemoryMeshConnection) -> None:
        await connection.lost()
        self._inner.discard(connection)
        self.streams -= 1
        self._changed()


def _place_of(node: NodeDescriptor) -> RelayPlace:
    [endpoint] = node.endpoints
    return RelayPlace(node_key=node.node_key, host=str(ipaddress.ip_address(endpoint.ip)), port=endpoint.port)


def use_memory_circuits(patch: pytest.MonkeyPatch, mesh: MemoryMesh) -> list[SeenCircuit]:
    """Let clients that require circuits build them over this mesh; return what exits see, as it grows."""
    seen: list[SeenCircuit] = []

    class MemoryPool(CircuitPool):
        async def _build_path(self, path: Path) -> Any:
            await asyncio.sleep(BUILD_S)
            view = SeenCircuit(path.exit.node_id, path.middle.node_id)
            seen.append(view)
            circuit = MemoryCircuit(mesh, path, view, changed=self._changed.set)
            circuit.on_ended = lambda ended: self._ended(cast("ClientCircuit", ended))
            return self._add(cast("ClientCircuit", circuit), BUILD_S)

        def _used(self, member: Any, use: str) -> ClientCircuit:
            member.circuit.seen.uses.add(use)
            return super()._used(member, use)

    class MemoryCircuits(MeshCircuits):
        async def _open(self, circuit: ClientCircuit, node: NodeDescriptor) -> MeshConnection:
            return cast("MeshConnection", await cast("MemoryCircuit", circuit).open(node))

    patch.setattr(host, "CircuitPool", MemoryPool)
    patch.setattr(host, "MeshCircuits", MemoryCircuits)
    return seen
