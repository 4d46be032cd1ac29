"""Nodes that answer for one inbox and not for another: what is read is shown, and what is said is true (SPEC 7.5)."""

import asyncio
from pathlib import Path

import pytest

from restante.cli.client.message_exchange import InboxResult, show_new
from restante.client.client import Client
from restante.client.places.read_results import SomeInboxesUnread
from restante.client.service import report_connection
from restante.crypto.blinded_keys import BlindedSigner, in_period
from restante.policy.mesh.polling import POLL_MS
from restante.testing.virtual_time import run_in_virtual_time
from restante.wire.mesh_keys import mesh_inbox_key
from support.mesh.memory_world import World, introduced, until_connected
from support.spec.clauses import clause

READ_S = 120


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def answer_nothing_for_the_contacts_inbox(world: World, bob: Client) -> None:
    keys = set()
    for bucket in range(world.began - 1, world.began + 3):
        signer = BlindedSigner(bob.identity, place=in_period(bucket), access_secret=bob.identity.access_secret)
        keys.add(mesh_inbox_key(signer.public_key, bucket))
    for node in world.mesh.nodes:
        node.unanswered = frozenset(keys)


def lose_connections(world: World) -> None:
    for node in world.mesh.nodes:
        for connection in node.connections[:]:
            connection.lose()


async def reported(client: Client, seconds: int) -> list[str]:
    texts: list[str] = []
    reporting = asyncio.create_task(report_connection(client, texts.append))
    await asyncio.sleep(seconds)
    reporting.cancel()
    return texts


@clause("7.5")
def test_that_one_inbox_cannot_be_read_is_reported_once_while_the_other_is_read(world: World) -> None:
    async def scenario() -> None:
        bob = world.client("bob")
        answer_nothing_for_the_contacts_inbox(world, bob)
        async with bob:
            [text] = await reported(bob, READ_S)
            assert text.startswith("not all messages can be received")
            assert text.endswith("(E001); trying again")
            assert not bob.was_connected
            for node in world.mesh.nodes:
                node.unanswered = frozenset()
            await until_connected(bob)
            assert bob.connection_failure is None

    run_in_virtual_time(scenario(), world.clock)


@clause("7.5")
def test_mail_of_an_inbox_that_takes_longer_is_shown_although_the_other_cannot_be_read(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first message goes to the public inbox, whose nodes take five seconds to send it."""

    async def scenario() -> InboxResult:
        bob = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, bob)
            await bob.close()
            await alice.send("peer", "hello")
            await asyncio.sleep(5)
        bob = world.client("bob", run=1)
        answer_nothing_for_the_contacts_inbox(world, bob)
        for node in world.mesh.nodes:
            node.body_delay_s = 5.0
        return await show_new(bob, again=False, follow=False, idle_timeout_s=1.0, as_json=False, running=None)

    result = run_in_virtual_time(scenario(), world.clock)
    assert "hello" in capsys.readouterr().out
    assert (result.shown, result.was_connected) == (1, False)
    assert isinstance(result.failure, SomeInboxesUnread)


@clause("7.5")
def test_a_read_that_lost_its_subscriptions_is_cut_short_and_is_no_failure(world: World) -> None:
    """All connections end while nodes take two seconds to send lists; the next read decides."""

    async def scenario() -> None:
        async with world.client("bob") as bob:
            await until_connected(bob)
            for node in world.mesh.nodes:
                node.list_delay_s = 2.0
            await asyncio.sleep(POLL_MS / 1_000 + 1)
            lose_connections(world)
            assert await reported(bob, 30) == []

    run_in_virtual_time(scenario(), world.clock)


@clause("7.5")
def test_nodes_of_the_mesh_that_prove_other_keys_are_not_reached_and_no_relay_is_blamed(tmp_path: Path) -> None:
    world = World(tmp_path, nodes=5)

    async def scenario() -> None:
        async with world.client("bob") as bob:
            await until_connected(bob)
            for node in world.mesh.nodes:
                node.is_replaced = True
            lose_connections(world)
            [text] = await reported(bob, READ_S)
            assert text.endswith("(E001); trying again")

    run_in_virtual_time(scenario(), world.clock)
