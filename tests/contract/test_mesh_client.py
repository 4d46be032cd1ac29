"""Clients over a mesh in memory: storing, reading, finding keys by address (SPEC 7)."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from restante.client.client import Client
from restante.client.contacts import Contact
from restante.core.inboxes.mesh_inbox import bucket_keys
from restante.core.signed_bundles import verify_bundle
from restante.model.fleet_actions import ActionKind, FleetAction
from restante.model.ids import NodeId
from restante.model.journal import JournalKind
from restante.model.places import MeshPlace
from restante.policy.mesh.time_buckets import HOUR_MS, bucket_at
from restante.runtime.sqlite.outbox.fleet_actions import ActionResult, take_scoreboard
from restante.testing.memory_mesh import SILENCE_S
from restante.testing.virtual_time import run_in_virtual_time
from restante.wire.inbox_keys import node_id_of
from support.mesh.evidence import events
from support.mesh.invented import invented_node
from support.mesh.memory_world import World, introduced, received, until_connected
from support.spec.clauses import clause


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@clause("7.3", "7.4", "7.8")
def test_messages_arrive_once_in_order_and_every_receipt_is_journaled(world: World) -> None:
    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            sent = await alice.send_many("peer", [f"message {number}" for number in range(20)])
            assert await received(bob, 20) == [f"message {number}" for number in range(20)]
            async with asyncio.timeout(600):
                for each in sent:
                    await each.delivered()
            stored = [row for row in alice.journal.events(after=0, limit=10_000) if row.evidence_signature]
            by_message = {row.message_id for row in stored}
            assert {each.message_id for each in sent} <= by_message
            assert len(stored) >= 2 * len(by_message)
            assert len({(row.message_id, row.node) for row in stored}) == len(stored), "each node once"

    run_in_virtual_time(scenario(), world.clock)


@clause("7.4")
def test_what_was_received_is_deleted_at_all_five_nodes(world: World) -> None:
    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            sent = await alice.send("peer", "gone afterwards")
            await received(bob, 1)
            async with asyncio.timeout(600):
                await sent.delivered()
                while any(True for _ in world.mesh.holders()):  # noqa: ASYNC110 - nodes delete one after the other
                    await asyncio.sleep(1)

    run_in_virtual_time(scenario(), world.clock)


@clause("7.3", "13.6")
@pytest.mark.parametrize("is_reversed", [False, True])
def test_bodies_come_from_the_node_that_the_fleets_scoreboard_has_first(world: World, is_reversed: bool) -> None:
    async def scenario() -> None:
        bob = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, bob)
            await alice.send("peer", "where from?")
            await asyncio.sleep(3 * 3_600)  # nodes push what is stored in a current bucket
            holders = sorted({node_id_of(node.key) for node, _, _ in world.mesh.holders()}, reverse=is_reversed)
            assert len(holders) > 1
            apply_scores(bob, holders, now_ms=world.clock.now_ms())
            async with bob:
                await received(bob, 1)
            asked = [node_id_of(node.key) for node in world.mesh.nodes for what in node.requests if what == "want"]
            assert asked == holders[:1]

    run_in_virtual_time(scenario(), world.clock)


def apply_scores(client: Client, best_first: list[NodeId], *, now_ms: int) -> None:
    """As `restante fleet apply` does."""
    scores = [
        FleetAction(action=ActionKind.SCOREBOARD, node=node, score=1 / place, reason="", as_of_ms=now_ms)
        for place, node in enumerate(best_first, 1)
    ]
    file = client.parts.file
    assert take_scoreboard(file.database, file.journal, scores, now_ms=now_ms) is ActionResult.DONE


@clause("7.5", "7.9")
def test_mail_for_someone_who_is_away_outlives_a_third_of_the_nodes(world: World) -> None:
    async def scenario() -> None:
        bob_before = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, bob_before)
            await bob_before.close()
            for part in range(4):
                await alice.send_many("peer", [f"{part}.{number}" for number in range(10)])
                await asyncio.sleep(20)
                world.mesh.kill(next(each for each in world.mesh.nodes[3:] if each.is_alive))
                world.mesh.add_node()
                world.mesh.repair()
                await asyncio.sleep(1_800)
            async with world.client("bob") as bob:
                assert await received(bob, 40) == [f"{part}.{number}" for part in range(4) for number in range(10)]

    run_in_virtual_time(scenario(), world.clock)


@clause("7.5")
def test_a_recipient_away_for_an_hour_asks_for_one_inbox_with_at_most_fifteen_requests(world: World) -> None:
    async def scenario() -> None:
        alice = world.client("alice")
        async with world.client("bob") as bob:
            await introduced(alice, bob)
            await asyncio.sleep(3 * 3_600)
        await asyncio.sleep(3_600)
        for node in world.mesh.nodes:
            node.requests.clear()
        async with world.client("bob") as bob:
            await asyncio.sleep(5)
        assert 0 < world.reads() <= 2 * 15, "two inboxes"
        await alice.close()

    run_in_virtual_time(scenario(), world.clock)


@clause("7.5")
def test_one_inbox_takes_at_most_fifteen_requests_an_hour_and_twenty_on_the_day_of_the_second_read(
    world: World,
) -> None:
    async def scenario() -> None:
        for hour in range(30):
            for node in world.mesh.nodes:
                node.requests.clear()
            async with world.client("bob"):
                await asyncio.sleep(5)
            most = 15 if hour < 24 else 20
            assert 0 < world.reads() <= 2 * most, f"two inboxes, hour {hour}"
            await asyncio.sleep(3_595)

    run_in_virtual_time(scenario(), world.clock)


@clause("7.5", "7.12")
def test_a_full_sync_asks_each_node_at_most_once_and_once_more_for_64_entries(world: World) -> None:
    """A new device reads 720 buckets: no node is asked more than 1 + entries/64 times for one inbox."""

    async def scenario() -> None:
        async with world.client("alice", since=None) as alice:
            await until_connected(alice)
            assert sum(sum(node.entries) for node in world.mesh.nodes) >= 2 * 5 * 718, (
                "two inboxes, five nodes each, two current hours"
            )
            for node in world.mesh.nodes:
                assert len(node.entries) <= 2 + sum(node.entries) / 64, "1 + entries/64 for each inbox"
                assert node.requests.count("mesh_subscribe") <= 2, "the current hour is subscribed to besides"

    run_in_virtual_time(scenario(), world.clock)


@clause("7.5")
def test_a_client_that_starts_again_reads_what_came_a_moment_ago(world: World) -> None:
    async def scenario() -> None:
        async with world.client("alice") as alice:
            async with world.client("bob") as bob:
                await introduced(alice, bob)
                await asyncio.sleep(5)  # Bob has read his buckets
            await alice.send("peer", "just now")
            await asyncio.sleep(1)
            async with world.client("bob") as again, asyncio.timeout(5):
                assert await received(again, 1) == ["just now"]

    run_in_virtual_time(scenario(), world.clock)


@clause("7.4", "11.3")
def test_subscriptions_that_are_lost_while_an_inbox_is_read_are_opened_again_at_once(world: World) -> None:
    async def scenario() -> None:
        alice = world.client("alice")
        async with world.client("bob") as bob:
            await introduced(alice, bob)
            await asyncio.sleep(15)  # Bob has read his inboxes once and once more, and is subscribed
            subscribed = [each for node in world.mesh.nodes for each in node.connections if each.subscribed]
            first_of = {key: each for each in subscribed for key in each.subscribed}
            for each in set(first_of.values()):  # one node of each inbox: the read that follows waits for it
                world.mesh.node(each.node).is_silent = True
                each.lose()
            await asyncio.sleep(SILENCE_S / 2)  # the other nodes have answered
            for each in subscribed:
                each.lose()
            async with alice, asyncio.timeout(2 * SILENCE_S):
                await alice.send("peer", "not pushed to anyone")
                assert await received(bob, 1) == ["not pushed to anyone"]

    run_in_virtual_time(scenario(), world.clock)


@clause("7.6")
def test_two_people_who_know_only_addresses_write_to_each_other(world: World) -> None:
    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await asyncio.sleep(20)
            async with alice.mesh_host() as host:
                found = await host.prekeys.fetch(bob.identity.address)
            bundle = verify_bundle(found.bundle, owner=bob.identity.address, now_ms=world.clock.now_ms())
            assert found.places.places == (MeshPlace(),)
            assert bundle.one_time == ()
            alice.contacts.add(Contact(card=bundle.card, bundle=found.bundle, places=found.places, name="bob"))
            await alice.send("bob", "by address only")
            await alice.send("bob", "and a second one")
            await asyncio.sleep(60)
            [request] = await bob.parts.requests.all()
            assert (request.sender, request.messages) == (alice.identity.address, 2)
            async with bob.mesh_host() as host:
                found = await host.prekeys.fetch(alice.identity.address)
            bob.contacts.add(Contact(card=alice.identity.card, bundle=found.bundle, places=found.places, name="alice"))
            assert await received(bob, 2) == ["by address only", "and a second one"]
            await asyncio.sleep(1)
            assert await bob.parts.requests.all() == []
            await bob.send("alice", "hello")
            assert await received(alice, 1) == ["hello"]

    run_in_virtual_time(scenario(), world.clock)


@clause("7.10", "7.11")
def test_nodes_with_wrong_clocks_do_not_move_mail(world: World) -> None:
    async def scenario() -> None:
        for node, offset_h in zip(world.mesh.nodes[3:6], (2, -2, 2), strict=True):
            node.clock_offset_ms = offset_h * HOUR_MS
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            await alice.send_many("peer", [f"message {number}" for number in range(10)])
            assert await received(bob, 10) == [f"message {number}" for number in range(10)]

    run_in_virtual_time(scenario(), world.clock)


@clause("7.10", "7.1")
def test_a_node_that_names_invented_nodes_instead_of_itself_delays_no_message(world: World) -> None:
    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            async with asyncio.timeout(600):
                await (await alice.send("peer", "first")).delivered()
            invented = [invented_node(number, now_ms=world.clock.now_ms()) for number in range(2_000)]
            bucket = bucket_at(world.clock.now_ms())
            key = int.from_bytes(bucket_keys(bob.identity.address, bucket, bob.identity.access_secret).inbox_key, "big")
            by_distance = sorted(world.mesh.nodes, key=lambda node: int.from_bytes(node_id_of(node.key), "big") ^ key)
            by_distance[0].names_instead = tuple(sorted(invented, key=lambda node: node.position ^ key)[:20])
            began_ms = world.clock.now_ms()
            sent = []
            for number in range(5):
                sent.append(await alice.send("peer", f"message {number}"))
                async with asyncio.timeout(600):
                    await sent[-1].delivered()
            assert await received(bob, 6) == ["first", *(f"message {number}" for number in range(5))]
            assert world.clock.now_ms() - began_ms < 60_000
            attempts = Counter(row.message_id for row in events(alice, JournalKind.RETRIED))
            assert not attempts.keys() & {each.message_id for each in sent}

    run_in_virtual_time(scenario(), world.clock)
