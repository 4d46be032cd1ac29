"""Mail of strangers: kept as a request, bounded, delivered on accept, deleted on block."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from restante.client.client import Client
from restante.policy.quota import MOST_REQUEST_SENDERS, MOST_REQUESTS_PER_SENDER, RequestUsage, may_keep_request
from restante.testing.deterministic import FakeClock
from support.client.client_pairs import Post, bodies, client_in, introduce, security


class Stranger:
    """Carol knows Bob; Bob does not know Carol."""

    def __init__(self, home: Path) -> None:
        self.clock = FakeClock()
        self.post = Post(self.clock)
        self.carol: Client = client_in(home / "carol", clock=self.clock)
        self.bob: Client = client_in(home / "bob", clock=self.clock)

    async def writes(self, *texts: bytes) -> None:
        for text in texts:
            await self.carol.send(self.bob.identity.address, text)
        await self.post.deliver(self.carol, self.bob)

    async def is_accepted(self) -> None:
        self.bob.contacts.add(replace(await self.carol.as_contact(), name="carol"))
        await self.bob.parts.requests.deliver_accepted(self.bob.receive)


@pytest.fixture
async def stranger(tmp_path: Path) -> AsyncIterator[Stranger]:
    both = Stranger(tmp_path)
    await introduce(both.carol, both.bob)
    yield both
    for client in (both.carol, both.bob):
        await client.close()


async def test_a_request_is_not_shown_and_not_acknowledged_until_it_is_accepted(stranger: Stranger) -> None:
    await stranger.writes(b"one", b"two", b"three")
    assert bodies(stranger.bob, stranger.clock) == []
    await stranger.bob.run_maintenance()
    assert await stranger.bob.outbox.counts() == {}
    await stranger.is_accepted()
    assert bodies(stranger.bob, stranger.clock) == [b"one", b"two", b"three"]
    await stranger.post.exchange(stranger.bob, stranger.carol)
    assert await stranger.carol.outbox.counts() == {}
    assert await stranger.bob.parts.requests.all() == []


async def test_what_a_blocked_sender_writes_is_gone_and_never_kept_again(stranger: Stranger) -> None:
    await stranger.writes(b"one")
    await stranger.bob.parts.requests.block(stranger.carol.identity.address, now_ms=stranger.clock.now_ms())
    await stranger.writes(b"two")
    assert await stranger.bob.parts.requests.all() == []
    assert security(stranger.bob) == []


async def test_a_stranger_who_writes_too_much_is_cut_off_without_losing_what_came_first(stranger: Stranger) -> None:
    await stranger.writes(*(b"%d" % number for number in range(MOST_REQUESTS_PER_SENDER + 3)))
    [request] = await stranger.bob.parts.requests.all()
    assert request.messages == MOST_REQUESTS_PER_SENDER
    assert security(stranger.bob) == ["request_refused"] * 3
    await stranger.is_accepted()
    assert bodies(stranger.bob, stranger.clock) == [b"%d" % number for number in range(MOST_REQUESTS_PER_SENDER)]


async def test_an_envelope_that_comes_twice_is_one_request(stranger: Stranger) -> None:
    await stranger.carol.send(stranger.bob.identity.address, b"once")
    envelopes = await stranger.post.collect(stranger.carol)
    for _ in range(2):
        await stranger.bob.receive(stranger.post.blobs(envelopes))
    [request] = await stranger.bob.parts.requests.all()
    assert request.messages == 1


def test_the_number_of_strangers_is_bounded() -> None:
    full = RequestUsage(senders=MOST_REQUEST_SENDERS, total_bytes=0, of_sender=0)
    assert not may_keep_request(full, size_bytes=1)
    assert may_keep_request(full._replace(of_sender=1), size_bytes=1), "one who wrote before may go on"
