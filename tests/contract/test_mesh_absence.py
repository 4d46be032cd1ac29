"""Recipients who are away, lost receipts, and nodes that hide mail, over a mesh in memory (SPEC 3.14, 7, 13.5)."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from restante.client.client import Client
from restante.client.contacts import Contact
from restante.core.signed_bundles import verify_bundle
from restante.model.error_codes import Code
from restante.model.journal import JournalKind
from restante.model.states import State
from restante.ports.mesh_connection import MAX_WANTED_AT_ONCE
from restante.testing.memory_mesh import SILENCE_S
from restante.testing.virtual_time import run_in_virtual_time
from restante.wire.inbox_keys import node_id_of
from support.mesh.evidence import events, withholding_nodes
from support.mesh.memory_world import World, introduced, received, until_connected
from support.spec.clauses import clause

DAY_S = 86_400


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@clause("13.5", "7.4", "7.8")
def test_a_node_that_hides_mail_is_named_by_what_it_signed_and_no_honest_node_is(world: World) -> None:
    async def scenario() -> None:
        liars = world.mesh.nodes[4:8]
        for node in liars:
            node.hides_mail = True
        before = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, before)
            await before.close()
            await alice.send_many("peer", [f"message {number}" for number in range(30)])
            await asyncio.sleep(60)
            stored_at = {row.node for row in events(alice, JournalKind.DELIVERY_CONFIRMED)}
            async with world.client("bob") as bob:
                assert await received(bob, 30) == [f"message {number}" for number in range(30)]
                await asyncio.sleep(5)
                named = withholding_nodes(alice, bob)
        assert named
        assert named == {node_id_of(each.key) for each in liars} & stored_at

    run_in_virtual_time(scenario(), world.clock)


@clause("13.5")
def test_a_node_that_obeyed_the_owners_delete_is_accused_of_nothing_when_another_one_missed_it(world: World) -> None:
    async def scenario() -> None:
        before = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, before)
            await before.close()
            await alice.send("peer", "hello")
            await asyncio.sleep(5)
            missed, key, hashed = next(iter(world.mesh.holders()))
            block = missed.held[key][hashed]
            async with world.client("bob") as bob:
                assert await received(bob, 1) == ["hello"]
                await asyncio.sleep(5)
            missed.deleted.clear()
            missed.keep(block)
            async with world.client("bob") as again:
                await asyncio.sleep(30)
                arrived = [row.code for row in events(again, JournalKind.ARRIVED)]
                assert arrived.count("duplicate") == 1, "it was read again, from the node that missed the DELETE"
                assert events(again, JournalKind.MISSING_AT_NODE) == []

    run_in_virtual_time(scenario(), world.clock)


@clause("3.14", "7.5", "10.4")
def test_a_message_without_receipt_is_stored_once_more_after_a_day_in_the_then_current_bucket(world: World) -> None:
    async def scenario() -> None:
        async with world.client("alice") as alice:
            bob = world.client("bob")
            await introduced(alice, bob)
            await bob.close()
            sent = await alice.send("peer", "kept twice")
            await asyncio.sleep(60)
        first = world.keys()
        await asyncio.sleep(DAY_S - 600)
        async with world.client("alice"):
            await asyncio.sleep(60)
        assert world.keys() == first
        await asyncio.sleep(1_200)
        async with world.client("alice"):
            await asyncio.sleep(600)
        second = world.keys() - first
        assert len(second) == 1
        await asyncio.sleep(2 * DAY_S)
        async with world.client("alice") as alice:
            await asyncio.sleep(600)
            assert world.keys() == first | second, "once"
            async with world.client("bob") as bob:
                assert await received(bob, 1) == ["kept twice"]
                await asyncio.sleep(600)
                assert [row.message_id for row in events(bob, JournalKind.RELEASED)] == [sent.message_id]
            assert sent.message_id in {row.message_id for row in events(alice, JournalKind.DELIVERED)}

    run_in_virtual_time(scenario(), world.clock)


@clause("7.3")
def test_a_third_of_dead_nodes_delays_the_first_messages_only_until_they_are_passed_over(world: World) -> None:
    """Their descriptors are valid for up to two hours, so they stay in the placement."""

    async def scenario() -> None:
        for node in world.mesh.nodes[3::3]:
            world.mesh.kill(node)
        for node in world.mesh.nodes[4::3]:
            node.is_silent = True
        bob = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, bob)
            for longest_s in (12, 2, 2, 2):
                began_ms = world.clock.now_ms()
                await alice.send_many("peer", [f"message {number}" for number in range(20)])
                while (await alice.outbox.counts()).keys() & {State.PENDING, State.SENDING}:  # noqa: ASYNC110 - nodes
                    await asyncio.sleep(0.1)
                assert world.clock.now_ms() - began_ms <= longest_s * 1_000
        await bob.close()

    run_in_virtual_time(scenario(), world.clock)


@clause("7.6", "7.9")
def test_a_stranger_finds_the_keys_of_someone_away_for_29_days_although_every_node_was_replaced(world: World) -> None:
    async def scenario() -> None:
        async with world.client("bob"):
            await asyncio.sleep(60)
        first = list(world.mesh.nodes)
        for node in first:
            await asyncio.sleep(29 * DAY_S / len(first))
            world.mesh.add_node()
            world.mesh.repair()
            world.mesh.kill(node)
        async with world.client("stranger") as stranger:
            bob = world.client("bob")
            async with stranger.mesh_host() as host:
                found = await host.prekeys.fetch(bob.identity.address)
            card = verify_bundle(found.bundle, owner=bob.identity.address, now_ms=world.clock.now_ms()).card
            stranger.contacts.add(Contact(card=card, bundle=found.bundle, places=found.places, name="bob"))
            await stranger.send("bob", "the first message")
            await asyncio.sleep(60)
            async with bob:
                await asyncio.sleep(60)
                [request] = await bob.parts.requests.all()
                assert (request.sender, request.messages) == (stranger.identity.address, 1)
                bob.contacts.add(await _known(bob, stranger))
                assert await received(bob, 1) == ["the first message"]

    run_in_virtual_time(scenario(), world.clock)


async def _known(reader: Client, other: Client) -> Contact:
    async with reader.mesh_host() as host:
        found = await host.prekeys.fetch(other.identity.address)
    return Contact(card=other.identity.card, bundle=found.bundle, places=found.places, name="stranger")


@clause("1.1", "7.5")
def test_a_recipient_who_stays_too_short_for_all_of_its_mail_receives_some_with_each_visit(world: World) -> None:
    async def scenario() -> None:
        texts = [f"message {number}" for number in range(3 * MAX_WANTED_AT_ONCE)]
        before = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, before)
            await before.close()
            await alice.send_many("peer", texts)
            await asyncio.sleep(60)
        got: list[str] = []
        for visit in range(1, 4):
            for node in world.mesh.nodes:
                node.wants_left = 1
            async with world.client("bob", run=visit) as bob:
                inbox = bob.inbox(explicit_acks=True)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SILENCE_S / 2):
                        async for message in inbox:
                            got.append(message.text)
                            await message.ack()
            assert got == texts[: len(got)]
        assert got == texts

    run_in_virtual_time(scenario(), world.clock)


@clause("7.5")
def test_a_read_that_no_node_answers_is_a_failure_and_not_an_empty_inbox(world: World) -> None:
    async def scenario() -> None:
        async with world.client("bob") as bob:
            await until_connected(bob)
        for node in world.mesh.nodes:
            node.is_silent = True
        async with world.client("bob") as bob:
            await asyncio.sleep(120)
            assert not bob.was_connected
            assert bob.connection_failure is not None
            assert bob.connection_failure.code is Code.NETWORK_UNREACHABLE
            for node in world.mesh.nodes:
                node.is_silent = False
            await until_connected(bob)
            assert bob.connection_failure is None

    run_in_virtual_time(scenario(), world.clock)
