"""Somebody publishes descriptors of nodes that do not exist: they count nowhere (SPEC 7.1, decision 0033)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from restante.cli.node.local_network import start, wait_until_joined
from restante.client.mesh.connector import connect_to_node
from restante.client.mesh.directory import MeshDirectory
from restante.core.directory.admission import MOST_DIALS_OF_SOURCE, MOST_WAITING_OF_SOURCE
from restante.crypto.identity import Identity
from restante.model.ids import NodeKey
from restante.model.node_descriptor import NodeDescriptor
from restante.model.places import RelayPlace
from restante.model.sources import Source
from restante.node.frame_family import Peer
from restante.policy.mesh.dialling import DIAL_BURST, DIALS_PER_S
from restante.runtime.system import SystemClock, SystemEntropy
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.testing.deterministic import FakeClock
from restante.wire.descriptors import encode_descriptor
from restante.wire.frames.codec import Unknown
from restante.wire.frames.mesh import MeshFrame
from restante.wire.frames.mesh_directory import DirectoryPage
from restante.wire.storage_receipts import StorageReceipt
from support.mesh.client_world import configure, introduced, opened, read_all, world
from support.mesh.invented import invented_node
from support.mesh.mesh_driver import inbox_of_this_hour
from support.mesh.running_nodes import NOW_MS, RunningNode, introduce, running_node
from support.mesh.scripted_node import listening
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S, until_true

INVENTED = 200
HONEST = 7


async def publish(place: RelayPlace, descriptors: Sequence[NodeDescriptor]) -> None:
    connection = await MeshConnection.connect(place.host, place.port, node=place.node_key)
    await asyncio.gather(*[connection.publish(encode_descriptor(each)) for each in descriptors])
    await connection.close()


@clause("7.1", "7.3", "7.10")
async def test_200_invented_nodes_crowd_out_no_honest_node(tmp_path: Path) -> None:
    with world(tmp_path, HONEST) as made:
        for node in made.nodes:
            configure(node)
            start(node)
        wait_until_joined(made.nodes)
        invented = [invented_node(number, now_ms=SystemClock().now_ms()) for number in range(INVENTED)]
        await asyncio.gather(*[publish(node.place, invented) for node in made.nodes])
        inbox = inbox_of_this_hour()
        for node in made.nodes:
            place = node.place
            connection = await MeshConnection.connect(place.host, place.port, node=place.node_key)
            answer = await connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(b"mail"))
            assert isinstance(answer, StorageReceipt)
            await connection.close()
        texts = [f"message {number}" for number in range(10)]
        alice_home, bob_home = made.homes
        async with asyncio.timeout(LIMIT_S), opened(alice_home) as alice, opened(bob_home) as bob:
            await introduced(alice, bob)
            sent = await alice.send_many("peer", texts)
            assert await read_all(bob, len(texts)) == texts
            for each in sent:
                await each.delivered()


@contextlib.asynccontextmanager
async def lying_server() -> AsyncIterator[RelayPlace]:
    """A node whose directory has none but 200 invented nodes."""
    invented = tuple(encode_descriptor(invented_node(number, now_ms=NOW_MS)) for number in range(INVENTED))

    def script(_frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
        return [DirectoryPage(next_cursor=0, is_last=True, digest=bytes(32), descriptors=invented)]

    liar, host = Identity(b"l" * 32), "127.0.77.1"
    async with listening(script, identity=liar, host=host) as port:
        yield RelayPlace(node_key=liar.node_key, host=host, port=port)


@pytest.fixture
async def honest(tmp_path: Path) -> AsyncIterator[list[RunningNode]]:
    async with contextlib.AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(running_node(tmp_path / str(number), number, clock=FakeClock(NOW_MS)))
            for number in range(1, 6)
        ]
        introduce(nodes)
        yield nodes


def client_directory(*places: RelayPlace) -> MeshDirectory:
    return MeshDirectory(places, connect_to_node, clock=FakeClock(NOW_MS), entropy=SystemEntropy())


def keys_of(nodes: Sequence[RunningNode]) -> set[NodeKey]:
    return {each.identity.node_key for each in nodes}


@clause("7.1")
async def test_one_lying_directory_server_adds_and_hides_no_node(honest: list[RunningNode]) -> None:
    async with lying_server() as liar:
        directory = client_directory(honest[0].place, liar, honest[1].place)
        await directory.refresh()
        assert {each.node_key for each in directory.valid()} == keys_of(honest)
        await directory.close()


@clause("7.1")
async def test_what_a_liar_added_while_too_few_families_answered_goes_once_enough_do(
    honest: list[RunningNode],
) -> None:
    async with lying_server() as liar:
        directory = client_directory(honest[0].place, liar)
        await directory.refresh()
        assert len(directory.valid()) == INVENTED + len(honest), "no other family could be asked: the union counts"
        await directory.refresh()
        assert {each.node_key for each in directory.valid()} == keys_of(honest)
        await directory.close()


@clause("7.1", "7.12")
async def test_a_flood_of_descriptors_causes_few_dials_and_is_remembered_within_bounds(tmp_path: Path) -> None:
    async with running_node(tmp_path, 1, clock=FakeClock(NOW_MS), bootstrap=[]) as node:
        admission, view = node.agent.directory.admission, node.service.view
        for number in range(3_000):
            admission.offer(invented_node(number % 1_000, now_ms=NOW_MS - number), Source(bytes([number % 3])))
        began_s = asyncio.get_running_loop().time()
        await until_true(lambda: admission.dials_failed > DIAL_BURST)
        passed_s = asyncio.get_running_loop().time() - began_s
        assert admission.dials <= DIAL_BURST + DIALS_PER_S * (passed_s + 1)
        assert len(admission.machine) <= 3 * (MOST_WAITING_OF_SOURCE + MOST_DIALS_OF_SOURCE)
        assert len(view.directory) == 1
