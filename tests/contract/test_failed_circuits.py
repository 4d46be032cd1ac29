"""A client whose circuits fail for a while, over a mesh in memory: where its messages are stored (SPEC 7.3, 11.3)."""

import asyncio
import ipaddress
from pathlib import Path

from restante.client.circuits.circuit import CircuitFailed
from restante.client.mesh.connections import PutAnswer
from restante.model.ids import BlindedKey
from restante.model.node_descriptor import NodeDescriptor
from restante.model.places import RelayPlace
from restante.policy.mesh.placement import COPIES, place
from restante.ports.mesh_connection import MeshConnection
from restante.testing.virtual_time import run_in_virtual_time
from restante.wire.inbox_keys import node_id_of
from support.mesh.memory_world import World, introduced
from support.spec.clauses import clause


class FailingCircuits:
    """Satisfies `client.mesh.connections.Circuits`. The first puts fail, later ones reach their node."""

    def __init__(self, world: World, *, failures: int) -> None:
        self.slots = asyncio.Semaphore(32)
        self._world = world
        self.failures = failures

    async def connect(self, _node: NodeDescriptor, _use: str, *, exits: int) -> MeshConnection:
        raise CircuitFailed(f"no circuit with {exits} exits")

    async def put(self, node: NodeDescriptor, blinded: BlindedKey, bucket: int, envelope: bytes) -> PutAnswer:
        if self.failures:
            self.failures -= 1
            raise CircuitFailed("the circuit ended before the exit answered")
        [endpoint] = node.endpoints
        where = RelayPlace(node_key=node.node_key, host=str(ipaddress.ip_address(endpoint.ip)), port=endpoint.port)
        return await (await self._world.mesh.connect(where)).put(blinded, bucket, envelope)

    def admit(self, size_bytes: int) -> None: ...

    async def close(self) -> None: ...


@clause("7.3", "11.3")
def test_after_failed_circuits_a_message_is_stored_where_its_recipient_reads(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def scenario() -> None:
        bob = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, bob)
            assert alice.running_mesh is not None
            circuits = FailingCircuits(world, failures=COPIES)
            alice.running_mesh.directory.connections.circuits = circuits
            await alice.send("peer", "where it belongs")
            await asyncio.sleep(60)
            holders = {(node_id_of(node.key), key) for node, key, _ in world.mesh.holders()}
            [key] = {key for _, key in holders}
            assert {node for node, _ in holders} == {each.node_id for each in place(world.mesh.index(), key, COPIES)}
            assert circuits.failures == 0
        await bob.close()

    run_in_virtual_time(scenario(), world.clock)
