"""What many messages, many contacts and a slow application cost: time and memory stay within bounds."""

import asyncio
import time
import tracemalloc
from pathlib import Path

import pytest

from restante.client.client import Client
from restante.client.outbox import Destination, Message, Outbox
from restante.model.states import Route, State
from restante.testing.deterministic import FakeClock
from support.client.client_pairs import Post, client_in, introduce
from support.inbox.decrypted_messages import letter
from support.outbox.entries import entry
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, open_client_file
from support.system.soak import first_now_rest_in_soak

LIMIT_S = 60.0
BODY_BYTES = 4_096
PENDING = first_now_rest_in_soak([2_000, 8_000])
UNREAD = first_now_rest_in_soak([1_000, 10_000])
CONTACTS = first_now_rest_in_soak([2_000, 10_000])


async def filled_outbox(path: Path, messages: int) -> None:
    outbox = Outbox.open(path)
    to = Destination(Route.RELAY, "bob")
    for start in range(0, messages, 500):
        await outbox.send_many([(Message(payload=b"%d" % n), to) for n in range(start, start + 500)])
    await outbox.close()


@clause("3.10", "3.11")
@pytest.mark.parametrize("pending", PENDING)
async def test_a_restart_with_thousands_pending_leases_within_a_second(tmp_path: Path, pending: int) -> None:
    await filled_outbox(tmp_path / "outbox.db", pending)
    began_s = time.process_time()
    outbox = Outbox.open(tmp_path / "outbox.db")
    leased = await outbox.within(
        lambda store: store.lease(owner="me", routes=[Route.RELAY], limit=1_024, now_ms=outbox._clock.now_ms())
    )
    assert time.process_time() - began_s < 1.0
    assert [one.payload for one in leased] == [b"%d" % n for n in range(256)]
    outbox.abandon()


@clause("9.8")
@pytest.mark.parametrize("unread", UNREAD)
async def test_memory_for_unread_messages_is_that_of_a_page(tmp_path: Path, unread: int) -> None:
    clock = FakeClock()
    client: Client = client_in(tmp_path / "bob", clock=clock)
    with client.received.batch(now_ms=clock.now_ms()) as batch:
        for number in range(unread):
            opened = letter(number, body=number.to_bytes(8, "big") * (BODY_BYTES // 8))
            batch.receive_decrypted(opened, server_timestamp_ms=clock.now_ms())
    tracemalloc.start()
    try:
        seen = 0
        async for message in client.inbox(follow=False):
            assert message.body[:8] == seen.to_bytes(8, "big")
            seen += 1
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen == unread
    assert peak_bytes < 8 * 1024 * 1024
    await client.close()


@clause("3.3")
@pytest.mark.parametrize("contacts", CONTACTS)
def test_thousands_of_contacts_do_not_slow_one_message(tmp_path: Path, contacts: int) -> None:
    file = open_client_file(tmp_path / "client.db")
    with file.database.transaction():
        for number in range(contacts):
            file.outbox._lanes.get_or_add(Route.RELAY, f"contact {number}", relay=None, now_ms=NOW_MS)

    def seconds(count: int, first: int) -> float:
        began_s = time.process_time()
        for number in range(first, first + count):
            with file.database.transaction():
                file.outbox.accept(entry(number, route=Route.RELAY, lane="contact 7"), now_ms=NOW_MS)
                file.outbox.lease(owner="me", routes=[Route.RELAY], limit=1, now_ms=NOW_MS, is_thorough=False)
                file.outbox.next_wake_ms(now_ms=NOW_MS)
        return time.process_time() - began_s

    assert file.outbox.counts() == {}
    seconds(20, 0)
    assert seconds(100, 20) < 0.5
    assert file.outbox.counts() == {State.SENDING: 120}
    file.database.close()


@clause("9.8", "10.5")
async def test_an_application_that_is_stuck_with_a_message_slows_nothing_else(tmp_path: Path) -> None:
    clock = FakeClock()
    alice, bob = client_in(tmp_path / "alice", clock=clock), client_in(tmp_path / "bob", clock=clock)
    await introduce(alice, bob, name="bob")
    await introduce(bob, alice, name="alice")
    post = Post(clock)
    sent = [await alice.send("bob", "first")]
    await post.exchange(alice, bob, rounds=1)
    stuck = bob.inbox()
    assert (await anext(stuck)).text == "first"  # and the application does not come back
    sent += [await alice.send("bob", f"{number}") for number in range(20)]
    answer = await bob.send("alice", "not waiting")
    async with asyncio.timeout(LIMIT_S):
        for _ in range(3):
            await post.exchange(alice, bob, rounds=1)
    for one in (*sent, answer):
        status = await (bob if one is answer else alice).status(one.message_id)
        assert status is not None
        assert status.state is State.DELIVERED
    await stuck.aclose()
    await alice.close()
    await bob.close()


def test_the_file_of_ten_contacts_and_of_thousands_opens_alike(tmp_path: Path) -> None:
    file = open_client_file(tmp_path / "client.db")
    with file.database.transaction():
        for number in range(5_000):
            file.outbox._lanes.get_or_add(Route.RELAY, f"contact {number}", relay=None, now_ms=NOW_MS)
    file.database.close()
    began_s = time.process_time()
    again = open_client_file(tmp_path / "client.db")
    assert again.outbox.lease(owner="me", routes=[Route.RELAY], limit=1, now_ms=NOW_MS) == []
    assert time.process_time() - began_s < 0.5
    again.database.close()
