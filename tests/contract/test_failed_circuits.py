"""A client whose circuits or nodes fail for a while, over a mesh in memory: where its messages are stored, whom it
asks for its own, and how soon they come (SPEC 7.3, 7.4, 11.3)."""

import asyncio
import ipaddress
from pathlib import Path

from restante.client.circuits.circuit import CircuitFailed
from restante.client.client import Client
from restante.core.inboxes.mesh_inbox import bucket_keys
from restante.model.ids import BlindedKey, NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.model.places import RelayPlace
from restante.policy.mesh.placement import COPIES, place
from restante.policy.mesh.polling import LISTS_WAIT_MS, POLL_MS
from restante.policy.mesh.time_buckets import current_buckets
from restante.ports.mesh_connection import MeshConnection
from restante.testing.memory_mesh import MemoryNode
from restante.testing.virtual_time import run_in_virtual_time
from restante.wire.inbox_keys import node_id_of
from restante.wire.storage_receipts import StorageReceipt
from support.mesh.memory_world import World, introduced, received, until_connected
from support.spec.clauses import clause

SOON_S = 3.0


class FailingCircuits:
    """Satisfies `client.mesh.connections.Circuits`. The first puts and connections fail, later ones reach their
    node."""

    def __init__(self, world: World, *, failures: int) -> None:
        self.slots = asyncio.Semaphore(32)
        self._world = world
        self.failures = failures

    async def connect(self, node: NodeDescriptor, _use: str, *, exits: int) -> MeshConnection:
        self._fail(f"no circuit with {exits} exits")
        return await self._world.mesh.connect(_place_of(node))

    async def put(self, node: NodeDescriptor, blinded: BlindedKey, bucket: int, envelope: bytes) -> StorageReceipt:
        self._fail("the circuit ended before the exit answered")
        answer = await (await self._world.mesh.connect(_place_of(node))).put(blinded, bucket, envelope)
        assert isinstance(answer, StorageReceipt)
        return answer

    def admit(self, size_bytes: int) -> None: ...

    async def close(self) -> None: ...

    def _fail(self, text: str) -> None:
        if self.failures:
            self.failures -= 1
            raise CircuitFailed(text)


def _place_of(node: NodeDescriptor) -> RelayPlace:
    [endpoint] = node.endpoints
    return RelayPlace(node_key=node.node_key, host=str(ipaddress.ip_address(endpoint.ip)), port=endpoint.port)


def use(client: Client, circuits: FailingCircuits) -> None:
    assert client.running_mesh is not None
    client.running_mesh.directory.connections.circuits = circuits


def lose_connections(*nodes: MemoryNode) -> None:
    for node in nodes:
        for connection in node.connections[:]:
            connection.lose()


def fives_of(world: World, client: Client) -> list[list[NodeId]]:
    """Return the nodes that this client's inboxes are read at now, for each inbox and bucket."""
    index = world.mesh.index()
    secrets = (b"", client.identity.access_secret)
    keys = [
        bucket_keys(client.identity.address, bucket, secret).inbox_key
        for bucket in current_buckets(world.clock.now_ms())
        if bucket >= world.began
        for secret in secrets
    ]
    return [[each.node_id for each in place(index, key, COPIES)] for key in keys]


def nodes_of(world: World, client: Client) -> set[NodeId]:
    return set().union(*fives_of(world, client))


@clause("7.3", "11.3")
def test_after_failed_circuits_a_message_is_stored_where_its_recipient_reads(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def scenario() -> None:
        bob = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, bob)
            circuits = FailingCircuits(world, failures=COPIES)
            use(alice, circuits)
            await alice.send("peer", "where it belongs")
            await asyncio.sleep(60)
            holders = {(node_id_of(node.key), key) for node, key, _ in world.mesh.holders()}
            [key] = {key for _, key in holders}
            assert {node for node, _ in holders} == {each.node_id for each in place(world.mesh.index(), key, COPIES)}
            assert circuits.failures == 0
        await bob.close()

    run_in_virtual_time(scenario(), world.clock)


@clause("7.4", "11.3")
def test_nodes_are_asked_again_over_other_circuits_and_none_farther_out_instead(tmp_path: Path) -> None:
    world = World(tmp_path, nodes=40)

    async def scenario() -> None:
        async with world.client("bob") as bob:
            await until_connected(bob)
            use(bob, FailingCircuits(world, failures=COPIES))
            for node in world.mesh.nodes:
                node.requests.clear()
            lose_connections(*world.mesh.nodes)
            await asyncio.sleep(SOON_S)
            subscribed = {node_id_of(each.key) for each in world.mesh.nodes if "mesh_subscribe" in each.requests}
            assert subscribed == nodes_of(world, bob)
            fetched = {node_id_of(each.key) for each in world.mesh.nodes if "fetch" in each.requests}
            assert fetched <= subscribed

    run_in_virtual_time(scenario(), world.clock)


@clause("7.4", "11.3")
def test_what_was_stored_while_no_circuit_could_be_built_is_read_as_soon_as_one_can(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            await until_connected(bob)
            circuits = FailingCircuits(world, failures=10**6)
            use(bob, circuits)
            lose_connections(*world.mesh.nodes)
            await alice.send("peer", "meanwhile")
            await asyncio.sleep(SOON_S)
            circuits.failures = 0
            async with asyncio.timeout(POLL_MS / 1_000 / 2):
                assert await received(bob, 1) == ["meanwhile"]

    run_in_virtual_time(scenario(), world.clock)


@clause("7.4", "7.5")
def test_a_node_that_is_silent_delays_nothing_that_others_push(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            await until_connected(bob)
            await asyncio.sleep(SOON_S)
            silent = [node for node in world.mesh.nodes if node_id_of(node.key) in nodes_of(world, bob)][:2]
            for node in silent:
                node.is_silent = True
            lose_connections(*silent)
            await asyncio.sleep(0.1)  # bob begins to read again, and waits for them
            await alice.send("peer", "pushed by the others")
            async with asyncio.timeout(SOON_S):
                assert await received(bob, 1) == ["pushed by the others"]

    run_in_virtual_time(scenario(), world.clock)


@clause("7.4", "7.5")
def test_what_two_nodes_list_waits_only_a_moment_for_silent_ones(tmp_path: Path) -> None:
    world = World(tmp_path, nodes=40)

    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            await until_connected(bob)
            for five in fives_of(world, bob):
                for node in world.mesh.nodes:
                    node.is_silent |= node_id_of(node.key) in five[2:]
            lose_connections(*world.mesh.nodes)
            await asyncio.sleep(0.1)  # bob begins to read again, and waits for the silent ones
            await alice.send("peer", "listed by the others")
            async with asyncio.timeout(LISTS_WAIT_MS / 1_000 + SOON_S):
                assert await received(bob, 1) == ["listed by the others"]

    run_in_virtual_time(scenario(), world.clock)


@clause("7.3", "7.4")
def test_once_silent_nodes_are_back_mail_is_stored_where_its_recipient_reads(tmp_path: Path) -> None:
    """Its sender had passed over all five. The recipient reads those and no others."""
    world = World(tmp_path, nodes=40)

    async def scenario() -> None:
        before = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, before)
            await before.close()
            silent = [node for node in world.mesh.nodes if node_id_of(node.key) in nodes_of(world, before)]
            for node in silent:
                node.is_silent = True
            lose_connections(*silent)
            await alice.send("peer", "stored farther out")
            await asyncio.sleep(30)
            for node in silent:
                node.is_silent = False
            world.mesh.repair()
            async with world.client("bob") as bob:
                assert await received(bob, 1) == ["stored farther out"]
                await alice.send("peer", "stored where bob reads")
                async with asyncio.timeout(SOON_S):
                    assert await received(bob, 2) == ["stored farther out", "stored where bob reads"]

    run_in_virtual_time(scenario(), world.clock)
