"""What an application uses: names, text, results that can be awaited, acks, and errors with codes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio

from restante.client.application.sent_message import NotDelivered, NotYetDelivered
from restante.client.client import Client
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, Malformed, OutboxFull, RestanteError
from restante.model.ids import MessageId
from restante.model.states import State
from restante.policy.capacity import OutboxLimits
from restante.policy.settings import Settings
from restante.testing.deterministic import FakeClock
from restante.wire.address import show_address
from support.client.client_pairs import Post, bodies, client_in, introduce
from support.spec.clauses import clause

LIMIT_S = 20.0
SMALL = Settings(outbox=OutboxLimits(max_entries=100))


class Pair:
    def __init__(self, home: Path, settings: Settings) -> None:
        self.clock = FakeClock()
        self.alice = client_in(home / "alice", clock=self.clock, settings=settings)
        self.bob = client_in(home / "bob", clock=self.clock)
        self.post = Post(self.clock)

    async def deliver(self) -> None:
        await self.post.exchange(self.alice, self.bob, rounds=1)


@pytest_asyncio.fixture
async def pair(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    made = Pair(tmp_path, getattr(request, "param", Settings()))
    await introduce(made.alice, made.bob, name="bob")
    await introduce(made.bob, made.alice, name="alice")
    async with asyncio.timeout(LIMIT_S):
        yield made
    await made.alice.close()
    await made.bob.close()


async def test_a_recipient_is_named_by_name_address_or_contact_and_a_body_is_text_or_bytes(pair: Pair) -> None:
    bob = pair.alice.contacts.named("bob")
    for to in ("bob", show_address(bob.address), bob.address, bob):
        await pair.alice.send(to, "Grüße")
    await pair.alice.send("bob", b"\xff\x00")
    await pair.deliver()
    assert bodies(pair.bob, pair.clock) == ["Grüße".encode()] * 4 + [b"\xff\x00"]


@pytest.mark.parametrize(
    ("to", "body", "kind", "code"),
    [
        (7, "x", "text", Code.MALFORMED),
        ("bob", 7, "text", Code.MALFORMED),
        ("bob", None, "text", Code.MALFORMED),
        ("bob", "\ud800", "text", Code.MALFORMED),
        ("bob", "x", 7, Code.MALFORMED),
        ("bob", "x", "control", Code.MALFORMED),
        ("nobody", "x", "text", Code.NOT_FOUND),
        (b"short", "x", "text", Code.NOT_FOUND),
    ],
)
async def test_a_wrong_argument_is_refused_with_a_code_and_nothing_is_stored(
    pair: Pair, to: Any, body: Any, kind: Any, code: Code
) -> None:
    with pytest.raises(RestanteError) as refused:
        await pair.alice.send(to, body, kind=kind)
    assert refused.value.code is code
    with pytest.raises(RestanteError):
        await pair.alice.send_many(to, body, kind=kind)
    assert await pair.alice.outbox.counts() == {}


@clause("3.13")
async def test_a_send_can_be_awaited_until_it_is_delivered_and_its_status_asked_for(pair: Pair) -> None:
    sent = await pair.alice.send("bob", "hello")
    waiting = asyncio.create_task(sent.delivered(timeout=LIMIT_S))
    await pair.deliver()
    await pair.deliver()
    assert (await waiting).state is State.DELIVERED
    status = await pair.alice.status(sent.message_id)
    assert status is not None
    assert status.state is State.DELIVERED
    assert await pair.alice.status(MessageId(bytes(16))) is None
    with pytest.raises(RestanteError, match="message_id must be the 16 bytes"):
        await pair.alice.status(cast("MessageId", "not bytes"))


async def test_waiting_for_a_delivery_ends_with_our_error_in_time_or_when_the_message_ends(pair: Pair) -> None:
    sent = await pair.alice.send("bob", "hello")
    with pytest.raises(NotYetDelivered) as late:
        await sent.delivered(timeout=0.01)
    assert (late.value.code, isinstance(late.value, TimeoutError)) == (Code.TIMED_OUT, True)
    waiting = asyncio.create_task(sent.delivered(timeout=LIMIT_S))
    await asyncio.sleep(0)
    await pair.alice.outbox.cancel(sent.message_id)
    with pytest.raises(NotDelivered) as ended:
        await waiting
    assert ended.value.state is State.DEAD


async def test_many_messages_are_sent_in_order_from_a_list_or_an_async_iterator(pair: Pair) -> None:
    async def numbers() -> AsyncIterator[str]:
        for number in range(100, 130):
            yield str(number)

    first = await pair.alice.send_many("bob", [str(number) for number in range(100)])
    second = await pair.alice.send_many("bob", numbers())
    assert (len(first), len(second)) == (100, 30)
    await pair.deliver()
    assert bodies(pair.bob, pair.clock) == [b"%d" % number for number in range(130)]


async def test_messages_of_a_slow_source_are_accepted_as_they_come(pair: Pair) -> None:
    given = asyncio.Event()

    async def slow() -> AsyncIterator[str]:
        yield "first"
        await given.wait()
        yield "second"
        raise ValueError("the source broke")

    async with asyncio.timeout(LIMIT_S), pair.alice.outbox.events() as events:
        sending = asyncio.create_task(pair.alice.send_many("bob", slow()))
        await anext(events)
        given.set()
        with pytest.raises(ValueError, match="the source broke"):
            await sending
    assert await pair.alice.outbox.counts() == {State.PENDING: 2}


@clause("3.6")
@pytest.mark.parametrize("pair", [SMALL], indirect=True)
@pytest.mark.parametrize("wait", [False, True])
async def test_everything_before_a_refused_message_is_accepted_and_counted(pair: Pair, wait: bool) -> None:
    with pytest.raises(OutboxFull) as refused:
        await pair.alice.send_many("bob", map(str, range(1_000)), wait=wait, deadline_s=0.01)
    assert await pair.alice.outbox.counts() == {State.PENDING: refused.value.accepted}
    assert (refused.value.accepted, refused.value.limit) == (80, 80)
    assert refused.value.lane == pair.alice.contacts.named("bob").lane
    await pair.deliver()
    assert bodies(pair.bob, pair.clock) == [b"%d" % number for number in range(80)]


@pytest.mark.parametrize("wrong", [7, None, "x" * 300_000, "\ud800"])
async def test_a_wrong_message_among_many_is_refused_after_those_before_it(pair: Pair, wrong: Any) -> None:
    with pytest.raises(RestanteError) as refused:
        await pair.alice.send_many("bob", [*map(str, range(100)), wrong, "after"])
    assert refused.value.accepted == 100
    await pair.deliver()
    assert bodies(pair.bob, pair.clock) == [b"%d" % number for number in range(100)]


@clause("3.6")
@pytest.mark.parametrize("pair", [SMALL], indirect=True)
async def test_a_full_outbox_makes_senders_wait_in_order_or_refuses_visibly(pair: Pair) -> None:
    sent = 0
    with contextlib.suppress(OutboxFull):
        while True:
            await pair.alice.send("bob", str(sent), wait=False)
            sent += 1
    assert sent <= 100
    with pytest.raises(OutboxFull):
        await pair.alice.send("bob", "too late", deadline_s=0.01)
    waiting = [asyncio.create_task(pair.alice.send("bob", str(sent + number))) for number in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    await pair.deliver()
    await pair.deliver()
    await asyncio.gather(*waiting)
    await pair.deliver()
    await pair.deliver()
    assert bodies(pair.bob, pair.clock) == [b"%d" % number for number in range(sent + 3)]


async def received(client: Client, **options: bool) -> list[str]:
    return [message.text async for message in client.inbox(follow=False, **options)]


@clause("9.8")
async def test_asking_for_the_next_message_acks_the_one_before(pair: Pair) -> None:
    await pair.alice.send_many("bob", ["one", "two", "three"])
    await pair.deliver()
    stopped = pair.bob.inbox(follow=False)
    assert (await anext(stopped)).sender_name == "alice"
    assert (await anext(stopped)).text == "two"
    await stopped.aclose()
    assert await received(pair.bob) == ["two", "three"]
    assert await received(pair.bob) == []


@clause("9.8")
async def test_with_explicit_acks_only_what_was_acked_is_not_shown_again(pair: Pair) -> None:
    await pair.alice.send_many("bob", ["one", "two", "three"])
    await pair.deliver()
    shown = [message async for message in pair.bob.inbox(follow=False, explicit_acks=True)]
    assert [message.text for message in shown] == ["one", "two", "three"]
    await shown[1].ack()
    await shown[1].ack()
    assert await received(pair.bob, explicit_acks=True) == ["one", "three"]
    assert await received(pair.bob) == ["one", "three"]


@clause("9.8", "10.4")
async def test_a_receipt_does_not_wait_for_the_application(pair: Pair) -> None:
    sent = await pair.alice.send("bob", "hello")
    await pair.deliver()
    await pair.deliver()
    status = await pair.alice.status(sent.message_id)
    assert status is not None
    assert status.state is State.DELIVERED
    assert await pair.bob.has_unread()


async def test_a_body_that_is_no_text_is_read_as_bytes(pair: Pair) -> None:
    await pair.alice.send("bob", b"\xff")
    await pair.deliver()
    [message] = [message async for message in pair.bob.inbox(follow=False)]
    assert message.body == b"\xff"
    with pytest.raises(Malformed):
        _ = message.text


async def test_an_iteration_ends_when_the_client_is_closed(pair: Pair) -> None:
    following = asyncio.ensure_future(anext(pair.bob.inbox(), None))
    await asyncio.sleep(0)
    await pair.bob.close()
    assert await following is None


async def test_a_client_that_runs_or_was_closed_is_not_run_again(pair: Pair) -> None:
    async with asyncio.timeout(LIMIT_S):
        async with pair.alice as alice:
            with pytest.raises(LocalProtocolError, match="runs already"):
                await alice.run()
            with pytest.raises(LocalProtocolError, match="runs already"):
                await alice.__aenter__()
            await alice.send("bob", "hello")
        with pytest.raises(LocalProtocolError, match="was closed"):
            await alice.run()
        await alice.close()
