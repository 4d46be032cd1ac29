"""The order in which a recipient's backlog goes to receiving, over a mesh in memory (SPEC 7.5, 9.4).

A message more than 1,000 numbers ahead of the highest one read is unreadable, so disorder costs re-encryption.
"""

import asyncio
from pathlib import Path

import pytest

from restante.client.client import Client
from restante.core.inboxes.mesh_inbox import bucket_keys
from restante.core.mailbox_poll import full_sync
from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.policy.mesh.placement import place
from restante.testing.memory_mesh import SILENCE_S, MemoryNode
from restante.testing.virtual_time import run_in_virtual_time
from restante.wire.frames.mesh_replication import Block
from restante.wire.inbox_keys import node_id_of
from support.mesh.evidence import events
from support.mesh.memory_world import World, introduced, received, until_connected
from support.mesh.running_nodes import OpenInbox
from support.spec.clauses import clause

MESSAGES = 30
TEXTS = [f"message {number}" for number in range(MESSAGES)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def sent_while_away(world: World, alice: Client) -> list[MessageId]:
    """Alice writes to Bob, who is away."""
    bob = world.client("bob")
    await introduced(alice, bob)
    await bob.close()
    sent = await alice.send_many("peer", TEXTS)
    await asyncio.sleep(60)
    return [each.message_id for each in sent]


def holders(world: World) -> list[MemoryNode]:
    return [node for node in world.mesh.nodes if any(len(blobs) >= MESSAGES for blobs in node.held.values())]


def removed(node: MemoryNode, *, numbers: range) -> list[Block]:
    """Take these messages from a node, counted in the order of storing; return them."""
    [blobs] = [each for each in node.held.values() if len(each) >= MESSAGES]
    hashes = list(blobs)
    return [blobs.pop(hashes[number]) for number in numbers]


def arrived(bob: Client) -> list[MessageId | None]:
    return [row.message_id for row in events(bob, JournalKind.ARRIVED) if row.code == "new"]


@clause("7.5", "9.4")
def test_what_a_node_pushes_while_the_backlog_is_read_comes_after_it(world: World) -> None:
    """Nodes push what they get by repair, too: it may be any part of the backlog."""

    async def scenario() -> None:
        async with world.client("alice") as alice:
            ids = await sent_while_away(world, alice)
            for node in world.mesh.nodes:
                node.body_delay_s = 5.0
            repaired, *others = holders(world)
            late = removed(repaired, numbers=range(20, MESSAGES))
            for node in others:
                removed(node, numbers=range(20, MESSAGES))
            async with world.client("bob") as bob:
                while not any("want" in node.requests for node in world.mesh.nodes):  # noqa: ASYNC110 - virtual time
                    await asyncio.sleep(0.1)
                for block in late:
                    repaired.keep(block)
                assert await received(bob, MESSAGES) == TEXTS
                assert arrived(bob) == ids

    run_in_virtual_time(scenario(), world.clock)


@clause("7.5", "7.12")
def test_a_full_sync_asks_no_node_for_more_bodies_at_once_than_it_answers(tmp_path: Path) -> None:
    """400 hours with a message each, five nodes: each is the best holder of about 80. It answers 64 at once."""
    world = World(tmp_path, nodes=5)

    async def scenario() -> None:
        owner = world.client("bob").identity
        for bucket in range(world.began - 400, world.began):
            inbox = OpenInbox(bucket, owner)
            block = Block(blinded=inbox.signer.public_key, bucket=bucket, envelope=inbox.envelope(b"%d" % bucket))
            for node in world.mesh.nodes:
                node.body_delay_s = 1.0
                node.keep(block)
        async with world.client("bob", since=None) as bob:
            await until_connected(bob)
        wanted = sum(node.requests.count("want") for node in world.mesh.nodes)
        assert wanted == 400, "no request was refused and made again"

    run_in_virtual_time(scenario(), world.clock)


@clause("7.5", "7.12")
def test_a_full_sync_holds_few_bodies_while_an_older_bucket_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, hours = 10_000, 300
    monkeypatch.setattr(full_sync, "MOST_HELD_BYTES", 100 * size)
    monkeypatch.setattr(full_sync, "MOST_UNDER_WAY", 16)
    world = World(tmp_path, nodes=5)

    def wanted() -> int:
        return sum(node.requests.count("want") for node in world.mesh.nodes)

    async def scenario() -> None:
        owner = world.client("bob").identity
        for bucket in range(world.began - hours, world.began):
            inbox = OpenInbox(bucket, owner)
            envelope = inbox.envelope(b"%d" % bucket + bytes(size))
            for node in world.mesh.nodes:
                node.keep(Block(blinded=inbox.signer.public_key, bucket=bucket, envelope=envelope))
                node.slow_key = OpenInbox(world.began - hours, owner).key
        async with world.client("bob", since=None) as bob:
            await asyncio.sleep(5 * SILENCE_S)
            assert 100 <= wanted() <= 1 + 100 + 16
            await until_connected(bob)
        assert wanted() == hours

    run_in_virtual_time(scenario(), world.clock)


@clause("7.5", "9.4")
def test_lists_of_nodes_that_hold_different_parts_are_read_in_the_order_of_storing(world: World) -> None:
    async def scenario() -> None:
        async with world.client("alice") as alice:
            ids = await sent_while_away(world, alice)
            first, *others = holders(world)
            removed(first, numbers=range(15, MESSAGES))
            for node in others:
                removed(node, numbers=range(10))
            async with world.client("bob") as bob:
                assert await received(bob, MESSAGES) == TEXTS
                assert arrived(bob) == ids

    run_in_virtual_time(scenario(), world.clock)


@clause("7.4", "7.12")
def test_a_node_that_puts_off_a_list_is_asked_again_and_no_other_in_its_place(world: World) -> None:
    async def scenario() -> None:
        async with world.client("alice") as alice:
            await sent_while_away(world, alice)
        for node in world.mesh.nodes:
            node.requests.clear()
            node.puts_off = 2
        async with world.client("bob") as bob:
            assert await received(bob, MESSAGES) == TEXTS
        asked = {node_id_of(node.key) for node in world.mesh.nodes if {"fetch", "mesh_subscribe"} & {*node.requests}}
        secrets = (b"", bob.identity.access_secret)
        keys = [bucket_keys(bob.identity.address, world.began, secret).inbox_key for secret in secrets]
        assert asked == {each.node_id for key in keys for each in place(world.mesh.index(), key)}

    run_in_virtual_time(scenario(), world.clock)
