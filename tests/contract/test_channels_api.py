"""`deliver` from the empty check to the after hook: what is queued, what is sent, and what is said of it (SPEC 12)."""

import asyncio

import pytest

from restante.client.channels import ChannelMessage, ChunkEnd, Enqueued, Skipped, Stop, Strategy
from restante.client.outbox_types import Destination, Message
from restante.core.channel_delivery import ChunkState
from restante.core.outbox_events import OutboxEventType
from restante.model.error_codes import Code
from restante.model.errors import DuplicateMessageId, OutboxFull, RestanteError
from restante.model.send_receipt import Dropped
from restante.model.states import DropReason, Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.channel_platforms import Format, Platform
from restante.policy.channel_rate_limit import ChannelLimits
from restante.policy.settings import Settings
from restante.ports.channel_adapter import NotSent, Outgoing, PlatformAck, SendRefused
from restante.runtime.channels.adapter_pool import Condition
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent
from restante.testing.memory_channel import MemoryChannel
from support.channels.fixtures import Place, delivered, draft, long_text, states
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S

DELIVERED, PENDING, DEAD, EXPIRED = State.DELIVERED, State.PENDING, State.DEAD, State.EXPIRED
NEVER = SendRefused("Bad Request: chat not found", status=400)
LATER = SendRefused("Internal Server Error", status=500)
DAY_MS = 86_400_000


@clause("12.1")
async def test_a_message_is_queued_in_chunks_sent_in_order_and_ends_as_delivered(here: Place) -> None:
    ops = MemoryChannel()
    channels = here.open(ops=ops)
    sent = await channels.deliver(draft(long_text(5), reply_to="7", thread="t"))
    assert await states(channels, sent) == [PENDING] * 5
    await channels.drain()
    assert await states(channels, sent) == [DELIVERED] * 5
    assert [text[:1] for text in ops.texts] == ["0", "1", "2", "3", "4"]
    assert [(one.index, one.count) for one in ops.taken] == [(index, 5) for index in range(5)]
    assert [one.reply_to for one in ops.taken] == ["7", None, None, None, None]
    assert {one.thread for one in ops.taken} == {"t"}
    assert {one.thread_key for one in ops.taken} == {ops.taken[0].key}
    await channels.close()


@clause("12.1", "12.8")
async def test_all_chunks_are_accepted_or_none(here: Place) -> None:
    ops = MemoryChannel()
    channels = here.open(Settings(outbox=OutboxLimits(max_entries=100, max_lane_share=1.0)), ops=ops)
    await channels.deliver(draft(long_text(98)))
    with pytest.raises(OutboxFull):
        await channels.deliver(draft(long_text(3)))
    assert (await channels.outbox.counts())[PENDING] == 98
    await channels.close()


@pytest.mark.parametrize("text", ["", " \n\t ", "[unused]: http://x\n"])
async def test_nothing_is_queued_for_a_text_of_which_nothing_would_be_seen(here: Place, text: str) -> None:
    channels = here.open(ops=MemoryChannel())
    assert await channels.deliver(draft(text)) == Skipped("empty")
    assert here.facts() == []
    await channels.close()


async def test_the_before_hook_replaces_or_stops_a_draft_and_the_caller_sees_it(here: Place) -> None:
    async def before(given: ChannelMessage) -> ChannelMessage | Stop:
        return Stop("quiet hours") if "hush" in given.markdown else draft(given.markdown.upper())

    ops = MemoryChannel()
    channels = here.open(ops=ops, before=before)
    assert await channels.deliver(draft("hush")) == Skipped("quiet hours")
    await delivered(channels, "hello")
    assert ops.texts == ["HELLO"]
    await channels.close()


async def test_the_after_hook_is_told_each_end_in_order_with_the_platforms_name_for_it(here: Place) -> None:
    ends: list[ChunkEnd] = []

    async def after(end: ChunkEnd) -> None:
        await asyncio.sleep(0)
        ends.append(end)

    ops = MemoryChannel(answers=[PlatformAck("first"), NEVER])
    channels = here.open(ops=ops, after=after)
    await delivered(channels, long_text(3))
    await channels.close()
    assert [(end.chunk.index, end.state, end.code, end.name) for end in ends] == [
        (0, DELIVERED, None, "first"),
        (1, DEAD, Code.CHANNEL_REFUSED, None),
        (2, DEAD, "cancelled", None),
    ]


async def test_an_after_hook_that_fails_disturbs_nobody(here: Place) -> None:
    seen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: seen.append(context["exception"]))

    async def after(_end: ChunkEnd) -> None:
        raise RuntimeError("hook")

    channels = here.open(ops=MemoryChannel(), after=after)
    sent = await delivered(channels, long_text(2))
    assert await states(channels, sent) == [DELIVERED, DELIVERED]
    await channels.close()
    assert [str(problem) for problem in seen] == ["hook", "hook"]


async def test_a_delivery_with_a_name_is_accepted_once(here: Place) -> None:
    channels = here.open(ops=MemoryChannel())
    name = bytes(range(16))
    await channels.deliver(draft(long_text(2)), delivery_id=name)
    with pytest.raises(DuplicateMessageId):
        await channels.deliver(draft(long_text(2)), delivery_id=name)
    await channels.close()


@clause("12.1")
async def test_when_a_chunk_can_never_arrive_the_later_ones_are_withdrawn_visibly(here: Place) -> None:
    ops = MemoryChannel(answers=[PlatformAck(), NEVER])
    channels = here.open(ops=ops)
    sent = await delivered(channels, long_text(5))
    assert await states(channels, sent) == [DELIVERED, DEAD, DEAD, DEAD, DEAD]
    assert len(ops.asked) == 2
    dead = [code for kind, code in here.facts() if kind == "dead_lettered"]
    assert dead == [Code.CHANNEL_REFUSED, "cancelled", "cancelled", "cancelled"]
    await channels.close()


async def test_with_best_effort_the_later_ones_are_sent_all_the_same(here: Place) -> None:
    ops = MemoryChannel(answers=[PlatformAck(), NEVER])
    channels = here.open(ops=ops)
    sent = await delivered(channels, long_text(4), strategy=Strategy.BEST_EFFORT)
    assert await states(channels, sent) == [DELIVERED, DEAD, DELIVERED, DELIVERED]
    await channels.close()


async def test_a_chunk_whose_delivery_was_aborted_does_not_come_alone_a_day_later(here: Place) -> None:
    ops = MemoryChannel(answers=[PlatformAck(), *[NotSent("down")] * 15])
    channels = here.open(ops=ops)
    sent = await delivered(channels, long_text(3))
    for _ in range(5):
        here.clock.advance(600_000)
        await channels.drain()
    assert await states(channels, sent) == [DELIVERED, DEAD, DEAD]
    here.clock.advance(DAY_MS)
    await channels.drain()
    assert len(ops.taken) == 1
    assert await states(channels, sent) == [DELIVERED, DEAD, DEAD]
    await channels.close()


async def test_an_aborted_delivery_recovered_by_hand_goes_on_where_it_stopped(here: Place) -> None:
    ops = MemoryChannel(answers=[PlatformAck(), NEVER])
    channels = here.open(ops=ops)
    sent = await delivered(channels, long_text(3))
    for message_id in sent.message_ids[1:]:
        await channels.outbox.recover(message_id)
    await channels.drain()
    assert await states(channels, sent) == [DELIVERED] * 3
    assert [one.index for one in ops.taken] == [0, 1, 2]
    await channels.close()


@clause("12.7")
async def test_entries_of_an_absent_channel_fail(here: Place) -> None:
    channels = here.open(ops=MemoryChannel(answers=[LATER] * 3))
    sent = await delivered(channels, "hello")
    await channels.close()
    here.clock.advance(5_000)
    channels = here.open(other=MemoryChannel())
    await channels.drain()
    assert await states(channels, sent) == [DEAD]
    assert ("dead_lettered", Code.CHANNEL_ABSENT) in here.facts()
    with pytest.raises(RestanteError) as refusal:
        await channels.deliver(draft("hello"))
    assert refusal.value.code is Code.CHANNEL_ABSENT
    await channels.close()


@clause("12.7")
async def test_entries_of_a_channel_that_failed_to_start_wait_and_use_up_no_try(here: Place) -> None:
    ops = MemoryChannel(limits=ChannelLimits(restart_delay_ms=100))
    ops.failing_starts = 2
    channels = here.open(ops=ops)
    sent = await channels.deliver(draft("hello"))
    await channels.drain()
    assert await states(channels, sent) == [PENDING]
    assert [one.condition for one in channels.health()] == [Condition.DOWN]
    running = asyncio.create_task(channels.run())
    async with asyncio.timeout(LIMIT_S):
        async for change in channels.outbox.events():
            if isinstance(change, OutboxEvent) and change.notice is OutboxEventType.DELIVERED:
                break
    running.cancel()
    await asyncio.wait([running])
    assert [kind for kind, _ in here.facts()] == ["accepted", "attempted", "sent", "delivered"]
    await channels.close()


@clause("12.8")
async def test_what_has_expired_is_never_sent_and_leaves_no_row_but_a_tombstone(here: Place) -> None:
    ops = MemoryChannel(answers=[LATER] * 3)
    channels = here.open(ops=ops)
    sent = await delivered(channels, "hello", ttl_s=3_600)
    here.clock.advance(3_600_000)
    await channels.drain()
    assert (len(ops.asked), await states(channels, sent)) == (3, [EXPIRED])
    here.clock.advance(DAY_MS)
    await channels.outbox.sweep()
    assert await states(channels, sent) == [EXPIRED], "known for 30 days (SPEC 3.13)"
    assert await channels.outbox.within(lambda store: store.progress.load(sent.message_ids[0])) == ChunkState()
    await channels.close()


async def test_chunks_of_one_chat_wait_for_each_other_and_another_chat_does_not(here: Place) -> None:
    ops = MemoryChannel(answers=[LATER] * 3)
    channels = here.open(ops=ops)
    await channels.deliver(draft("first"))
    await channels.deliver(draft("second"))
    await channels.drain()
    await channels.deliver(draft("elsewhere", chat="two"))
    await channels.drain()
    assert ops.texts == ["elsewhere"]
    here.clock.advance(5_000)
    await channels.drain()
    assert ops.texts == ["elsewhere", "first", "second"]
    await channels.close()


async def test_something_else_on_the_channel_route_is_given_up_as_malformed(here: Place) -> None:
    channels = here.open(ops=MemoryChannel())
    await channels.outbox.send(Message(payload=b"no chunk"), Destination(Route.CHANNEL, "ops/room"))
    await channels.drain()
    assert ("dead_lettered", Code.MALFORMED) in here.facts()
    await channels.close()


async def test_what_cannot_be_queued_does_not_leave_by_a_channel(here: Place) -> None:
    ops = MemoryChannel()
    channels = here.open(ops=ops)
    await channels.deliver(draft("hello"))
    [waiting] = await channels.outbox.within(lambda store: store.entries(limit=1))
    loaded = await channels.outbox.within(lambda store: store.load(waiting.message_id))
    assert loaded is not None
    running = asyncio.create_task(channels.run())
    async with asyncio.timeout(LIMIT_S):
        async for change in channels.outbox.events():
            if isinstance(change, OutboxEvent) and change.notice is OutboxEventType.DELIVERED:
                break
    live = Message(payload=loaded.payload, kind="typing", message_id=loaded.message_id)
    receipt = await channels.outbox.send(live, Destination(Route.CHANNEL, "ops/room"))
    assert receipt.deliveries[0].outcome == Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)
    running.cancel()
    await asyncio.wait([running])
    await channels.close()
    assert len(ops.asked) == 1


async def test_an_entry_that_was_taken_over_meanwhile_is_left_to_its_new_owner(here: Place) -> None:
    class Sleeper(MemoryChannel):
        async def send(self, message: Outgoing) -> PlatformAck:
            self.asked.append(message)
            here.clock.advance(120_000)  # the lease is over
            await channels.outbox.sweep()
            await channels.outbox.cancel(message_id)
            raise LATER

    channels = here.open(ops=Sleeper())
    sent = await channels.deliver(draft("hello"))
    assert isinstance(sent, Enqueued)
    [message_id] = sent.message_ids
    await channels.drain()
    assert await states(channels, sent) == [DEAD]
    await channels.outbox.discard(message_id)
    await channels.close()


async def test_a_chunk_that_was_rendered_for_another_platform_is_sent_as_plain_text(here: Place) -> None:
    channels = here.open(ops=MemoryChannel(platform=Platform.TELEGRAM, answers=[LATER] * 3))
    await delivered(channels, "**bold**")
    await channels.close()
    here.clock.advance(5_000)
    matrix = MemoryChannel(platform=Platform.MATRIX)
    channels = here.open(ops=matrix)
    await channels.drain()
    assert [(one.text, one.format) for one in matrix.taken] == [("bold", Format.PLAIN)]
    await channels.close()


async def test_a_large_chunk_in_a_wide_script_is_cut_until_it_fits_an_entry(here: Place) -> None:
    mail = MemoryChannel(platform=Platform.EMAIL)
    channels = here.open(ops=mail)
    text = "文" * 60_000
    await delivered(channels, text)
    assert "".join(one.plain.strip() for one in mail.taken) == text
    assert len(mail.taken) == 3
    await channels.close()
