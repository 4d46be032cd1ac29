"""A relative TTL starts and READ goes out when a message is first shown, not when it is acked (SPEC 2.6, 9.8)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from restante.client.client import Client
from restante.model.inbox_entry import InboxEntry
from restante.model.states import Confirmation
from restante.testing.deterministic import FakeClock
from support.client.client_pairs import Post, client_in, introduce
from support.spec.clauses import clause

LIMIT_S = 20.0
TTL_S = 60


class Pair:
    def __init__(self, home: Path) -> None:
        self.clock = FakeClock()
        self.alice = client_in(home / "alice", clock=self.clock)
        self.bob = client_in(home / "bob", clock=self.clock)
        self.post = Post(self.clock)

    async def exchange(self) -> None:
        await self.post.exchange(self.alice, self.bob, rounds=2)

    async def shown(self) -> list[str]:
        """Show every message that is not acked, and ack none."""
        return [message.text async for message in self.bob.inbox(follow=False, explicit_acks=True)]

    async def entries(self) -> list[InboxEntry]:
        return await entries_of(self.bob, self.clock.now_ms())


async def entries_of(client: Client, now_ms: int) -> list[InboxEntry]:
    found = await client.parts.file.run(lambda: client.parts.inbox.released(after=-1, limit=10, now_ms=now_ms))
    return [entry for _, entry in found]


@pytest_asyncio.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    made = Pair(tmp_path)
    await introduce(made.alice, made.bob, name="bob")
    await introduce(made.bob, made.alice, name="alice")
    async with asyncio.timeout(LIMIT_S):
        yield made
    await made.alice.close()
    await made.bob.close()


@clause("2.6", "9.8")
async def test_a_relative_ttl_starts_when_the_message_is_first_shown(pair: Pair) -> None:
    await pair.alice.send("bob", "soon gone", kind="disappearing", ttl_s=TTL_S)
    await pair.exchange()
    pair.clock.advance(3_600_000)
    [unread] = await pair.entries()
    assert unread.expires_at_ms is None, "an unread message with a relative TTL does not expire"
    assert await pair.shown() == ["soon gone"]
    first_shown_at_ms = pair.clock.now_ms()
    pair.clock.advance(TTL_S * 1_000 - 1)
    assert await pair.shown() == ["soon gone"], "a second show does not start the TTL again"
    [entry] = await pair.entries()
    assert (entry.first_read_at_ms, entry.acked_at_ms) == (first_shown_at_ms, None)
    pair.clock.advance(1)
    assert await pair.shown() == []


@clause("9.8", "10.1")
async def test_read_goes_out_on_first_show_without_waiting_for_the_ack(pair: Pair) -> None:
    pair.bob.sends_read_acks = True
    sent = await pair.alice.send("bob", "hello")
    await pair.exchange()
    assert await pair.shown() == ["hello"]
    await pair.exchange()
    status = await pair.alice.status(sent.message_id)
    assert status is not None
    assert status.confirmation is Confirmation.READ
    assert await pair.shown() == ["hello"], "it is shown again until it is acked"


@clause("9.8")
async def test_an_ack_records_that_the_message_was_shown_and_processed(pair: Pair) -> None:
    await pair.alice.send("bob", "hello")
    await pair.exchange()
    [message] = [one async for one in pair.bob.inbox(follow=False, explicit_acks=True)]
    await message.ack()
    [entry] = await pair.entries()
    now_ms = pair.clock.now_ms()
    assert (entry.first_read_at_ms, entry.acked_at_ms) == (now_ms, now_ms)
    assert await pair.shown() == []
