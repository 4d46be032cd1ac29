"""A long backlog that is encrypted again while receipts for parts of it arrive (SPEC 3.4, 8.7, 9.4)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restante.core.outbox_events import RetransmitRequested
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.states import Route
from restante.policy.send_order import WINDOW
from restante.testing.deterministic import FakeClock
from restante.testing.virtual_time import run_in_virtual_time
from support.client.client_pairs import Post, bodies, client_in, facts, introduce, security
from support.client.two_clients import Two
from support.mesh.evidence import events
from support.mesh.memory_world import World, introduced
from support.spec.clauses import clause

BACKLOG = 2_500
READ = 1_200
"""More than 1,000: the hole that their receipts must not leave."""


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    clock = FakeClock()
    alice, bob = (client_in(tmp_path / name, clock=clock) for name in ("alice", "bob"))
    made = Two(tmp_path, clock, alice, bob, Post(clock))
    await introduce(alice, bob, name="bob")
    await introduce(bob, alice, name="alice")
    yield made
    await made.alice.close()
    await made.bob.close()


def texts(numbers: range) -> list[bytes]:
    return [b"message %04d" % number for number in numbers]


async def pass_time(two: Two, milliseconds: int) -> None:
    two.clock.advance(milliseconds)
    for client in (two.alice, two.bob):
        await client.run_maintenance()


@clause("3.4", "8.7", "9.4")
async def test_receipts_that_overtake_a_backlog_that_is_encrypted_again_leave_no_hole_in_its_numbers(two: Two) -> None:
    """Bob gets the end of the backlog before its beginning, asks, and reads the beginning. Alice gets his question
    first, then his receipts."""
    await two.say(*texts(range(BACKLOG)))
    envelopes = await two.post.collect(two.alice)
    assert len(envelopes) == BACKLOG
    await two.bob.receive(two.post.blobs(envelopes[-1:]))
    question = await two.post.collect(two.bob)
    await two.bob.receive(two.post.blobs(envelopes[:READ]))
    await pass_time(two, 1_100)
    receipts = await two.post.collect(two.bob)
    await two.alice.receive(two.post.blobs(question))
    await two.alice.receive(two.post.blobs(receipts))
    again = await two.post.collect(two.alice)
    await two.bob.receive(two.post.blobs(again))
    await two.talk()
    assert bodies(two.bob, two.clock) == texts(range(BACKLOG))
    assert await two.alice.outbox.counts() == {}
    assert len(await two.bob.sessions()) == 2, "no third session was needed"
    unreadable = [code for code in security(two.bob) if code == "E009"]
    assert len(unreadable) == 1
    reencrypted = facts(two.alice, JournalKind.REENCRYPTED)
    assert len({row.message_id for row in reencrypted}) == len(reencrypted) == BACKLOG - READ
    assert [row.sequence for row in reencrypted] == sorted(row.sequence or 0 for row in reencrypted)


@clause("3.4", "8.7")
async def test_a_backlog_that_is_encrypted_again_leaves_in_runs_and_is_numbered_as_it_leaves(two: Two) -> None:
    await two.say(b"hello")
    await two.talk()
    await two.say(*texts(range(BACKLOG)))
    await two.post.collect(two.alice)
    await two.bob.reset_sessions("alice")
    await two.alice.receive(two.post.blobs(await two.post.collect(two.bob)))
    assert facts(two.alice, JournalKind.REENCRYPTED) == []
    leased = two.alice.outbox.store.lease(owner="test", routes=(Route.RELAY,), limit=10_000, now_ms=two.clock.now_ms())
    mail = [entry.message_id for entry in leased if entry.kind is not Kind.CONTROL]
    assert [row.message_id for row in facts(two.alice, JournalKind.REENCRYPTED)] == mail
    assert len(mail) == WINDOW


@clause("3.4")
def test_more_entries_than_one_run_takes_are_stored_again_one_run_after_the_other(tmp_path: Path) -> None:
    """None of them waits for the next sweep: an attempt that ends makes room for the next one."""
    count = 5 * WINDOW
    world = World(tmp_path)

    async def scenario() -> None:
        away = world.client("bob")
        async with world.client("alice") as alice:
            await introduced(alice, away)
            await away.close()
            sent = await alice.send_many("peer", [str(number) for number in range(count)])
            while len(events(alice, JournalKind.SENT)) < count:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(1)
            store = alice.outbox.store

            def request_all() -> None:
                for each in sent:
                    store.apply(each.message_id, RetransmitRequested(), now_ms=world.clock.now_ms())

            await alice.file.run(request_all)
            alice.outbox.wake(is_thorough=False)
            async with asyncio.timeout(10):
                while len(events(alice, JournalKind.SENT)) < 2 * count:  # noqa: ASYNC110 - virtual time
                    await asyncio.sleep(0.1)

    run_in_virtual_time(scenario(), world.clock)
