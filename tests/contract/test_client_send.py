"""What a caller is told about a send, at once and truthfully."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from restante.client.client import Client
from restante.client.outgoing import MAX_CONTENT_BYTES
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import Malformed, OutOfRange, RestanteError, TooLarge
from restante.model.ids import Address
from restante.model.kinds import Kind
from restante.model.send_receipt import Dropped, Queued
from restante.model.states import DropReason
from restante.testing.deterministic import FakeClock
from restante.wire.address import show_address
from support.client.client_pairs import Post, client_in, introduce
from support.spec.clauses import clause

MAX_TEXT_BYTES = 251_314
STRANGER = Identity(b"x" * 32)


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    clock = FakeClock()
    made, peer = client_in(tmp_path / "alice", clock=clock), client_in(tmp_path / "bob", clock=clock)
    await introduce(made, peer)
    yield made
    for one in (made, peer):
        await one.close()


def bob(client: Client) -> Address:
    return client.contacts.named("peer").address


async def held(client: Client) -> int:
    return sum((await client.outbox.counts()).values())


@clause("3.7")
async def test_a_durable_message_is_queued_for_its_destination(client: Client) -> None:
    receipt = await client.send(bob(client), b"hello")
    assert receipt.outcomes == ((show_address(bob(client)), Queued()),)
    entry = client.outbox.store.load(receipt.message_id)
    assert entry is not None
    assert (entry.lane, entry.kind) == (show_address(bob(client)), Kind.TEXT)


@clause("2.4", "3.7")
@pytest.mark.parametrize(
    ("kind", "reason"),
    [("position", DropReason.REAL_TIME_DURING_DISCONNECT), ("semaphore", DropReason.NOT_QUEUE_ELIGIBLE)],
)
async def test_what_may_not_be_queued_is_dropped_with_the_reason(client: Client, kind: str, reason: DropReason) -> None:
    receipt = await client.send(bob(client), b"52.1 4.3", kind=kind)
    assert receipt.outcomes == ((show_address(bob(client)), Dropped(reason)),)
    assert await held(client) == 0


@clause("2.5")
async def test_a_ttl_outside_its_range_is_refused_with_the_range_and_nothing_is_kept(client: Client) -> None:
    with pytest.raises(OutOfRange, match=r"ttl_s of text = 59 is outside 3600\.\.7776000 s"):
        await client.send(bob(client), b"hello", ttl_s=59)
    assert await held(client) == 0


@pytest.mark.parametrize("ttl_s", [3600.5, 7200.0, "7200", True])
async def test_a_ttl_that_is_no_whole_number_is_refused_with_our_error(client: Client, ttl_s: Any) -> None:
    with pytest.raises(Malformed, match="ttl_s must be a whole number of seconds"):
        await client.send(bob(client), b"hello", ttl_s=ttl_s)
    assert await held(client) == 0


@clause("2.8")
async def test_the_largest_message_fits_and_one_more_byte_is_refused_by_its_code(client: Client) -> None:
    largest = MAX_CONTENT_BYTES - 18 - len("text")
    with pytest.raises(TooLarge) as refused:
        await client.send(bob(client), bytes(largest + 1))
    assert refused.value.code is Code.MESSAGE_TOO_LARGE
    assert await held(client) == 0
    receipt = await client.send(bob(client), bytes(largest))
    entry = client.outbox.store.load(receipt.message_id)
    assert entry is not None
    assert len(entry.payload) <= 262_144


async def test_a_refused_send_uses_up_no_number_and_no_key(client: Client) -> None:
    for refused_bytes in (262_144, 260_000):
        with pytest.raises(TooLarge):
            await client.send(bob(client), bytes(refused_bytes))
    await client.send(bob(client), b"first")
    with pytest.raises(OutOfRange):
        await client.send(bob(client), b"?", ttl_s=1)
    await client.send(bob(client), b"second")
    await Post(FakeClock(client.now_ms())).collect(client)
    leased = [row for row in client.journal.events(after=0, limit=20) if row.payload_hash is not None]
    assert [row.sequence for row in leased] == [0, 1]


async def test_a_stranger_cannot_be_written_to(client: Client) -> None:
    with pytest.raises(RestanteError, match="not among the contacts") as refused:
        await client.send(STRANGER.address, b"who are you?")
    assert refused.value.code is Code.NOT_FOUND


@clause("2.8")
@pytest.mark.parametrize("size", [MAX_TEXT_BYTES + 1, 262_145, 1_000_000])
async def test_whatever_the_size_of_a_message_the_same_limit_is_named(client: Client, size: int) -> None:
    with pytest.raises(TooLarge) as refused:
        await client.send(bob(client), bytes(size))
    assert (refused.value.size_bytes, refused.value.limit_bytes) == (size, MAX_TEXT_BYTES)


@clause("2.8")
async def test_a_text_of_the_largest_size_is_accepted(client: Client) -> None:
    await client.send(bob(client), bytes(MAX_TEXT_BYTES))
    assert await held(client) == 1
