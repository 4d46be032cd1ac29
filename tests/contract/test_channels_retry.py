"""Retries of a channel: waits, formats, cut chunks, lost answers and crashes (SPEC 12.4 to 12.6)."""

import asyncio
from pathlib import Path

import pytest

from restante.client.channels import Channels, Enqueued
from restante.core.channel_delivery import ChunkState
from restante.core.outbox_events import OutboxEventType
from restante.model.error_codes import Code
from restante.model.states import State
from restante.policy.capacity import OutboxLimits
from restante.policy.channel_errors import PERMANENT_TEXTS
from restante.policy.channel_platforms import Format, Platform
from restante.policy.settings import Settings
from restante.ports.channel_adapter import NoAnswer, PlatformAck, SendRefused
from restante.runtime.channels.adapter_pool import Condition
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent
from restante.testing.memory_channel import MemoryChannel
from support.channels.fixtures import Place, StillDice, delivered, draft, registered, states
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S

DELIVERED, PENDING, DEAD, EXPIRED = State.DELIVERED, State.PENDING, State.DEAD, State.EXPIRED
NEVER = SendRefused("Bad Request: chat not found", status=400)
LATER = SendRefused("Internal Server Error", status=500)
DAY_MS = 86_400_000


@clause("12.4")
async def test_three_tries_in_process_then_the_steps_of_the_channel_schedule(here: Place) -> None:
    ops = MemoryChannel(answers=[LATER] * 5)
    channels = here.open(ops=ops)
    sent = await delivered(channels, "hello")
    assert (len(ops.asked), await states(channels, sent)) == (3, [PENDING])
    here.clock.advance(4_999)
    await channels.drain()
    assert len(ops.asked) == 3
    here.clock.advance(1)
    await channels.drain()
    assert await states(channels, sent) == [DELIVERED]
    assert len({one.key for one in ops.asked}) == 1
    assert here.reports() == []
    await channels.close()


@clause("12.4")
async def test_a_told_wait_beyond_the_lease_is_kept_exactly_by_the_queue_and_counts_no_try(here: Place) -> None:
    slow = SendRefused("Too Many Requests: retry after 90", status=429, retry_after_ms=90_000)
    ops = MemoryChannel(answers=[slow])
    channels = here.open(ops=ops)
    sent = await delivered(channels, "hello")
    status = await channels.outbox.status(sent.message_ids[0])
    assert status is not None
    assert (status.state, status.attempts, status.last_error) == (PENDING, 0, Code.RATE_LIMITED)
    here.clock.advance(89_999)
    await channels.drain()
    assert len(ops.asked) == 1
    here.clock.advance(1)
    await channels.drain()
    assert await states(channels, sent) == [DELIVERED]
    await channels.close()


async def test_one_chats_rate_limit_is_remembered_for_the_whole_channel_and_no_other(here: Place) -> None:
    slow = SendRefused("Too Many Requests", status=429, retry_after_ms=90_000)
    ops, other = MemoryChannel(answers=[slow]), MemoryChannel()
    channels = here.open(ops=ops, other=other)
    await delivered(channels, "hello")
    await channels.deliver(draft("to another chat", chat="elsewhere"))
    await channels.deliver(draft("to another channel", channel="other"))
    await channels.drain()
    assert (len(ops.asked), other.texts) == (1, ["to another channel"])
    assert {one.channel: one.condition for one in channels.health()} == {
        "ops": Condition.SILENT,
        "other": Condition.READY,
    }
    here.clock.advance(90_000)
    await channels.drain()
    assert sorted(ops.texts) == ["hello", "to another chat"]
    await channels.close()


async def test_a_running_service_goes_on_with_every_chat_as_soon_as_the_silence_is_over(tmp_path: Path) -> None:
    slow = SendRefused("Too Many Requests", status=429, retry_after_ms=900)
    ops = MemoryChannel(answers=[slow])
    channels = Channels.open(
        tmp_path / "mail.db",
        {"ops": registered("ops", ops)},
        settings=Settings(outbox=OutboxLimits(lease_ms=1_000)),
        entropy=StillDice(1),
    )
    stream = channels.outbox.events()
    running = asyncio.create_task(channels.run())
    async with asyncio.timeout(LIMIT_S):
        await channels.deliver(draft("first"))
        while not ops.asked:
            await anext(stream)
        await channels.deliver(draft("second", chat="elsewhere"))
        while len(ops.taken) < 2:
            await anext(stream)
    assert sorted(ops.texts) == ["first", "second"]
    running.cancel()
    await asyncio.wait([running])
    await channels.close()


@clause("12.4")
async def test_a_refused_format_is_resent_as_plain_text_once_even_after_a_restart(here: Place) -> None:
    bad = SendRefused("Bad Request: can't parse entities", status=400)
    ops = MemoryChannel(platform=Platform.TELEGRAM, answers=[bad, LATER, LATER])
    channels = here.open(ops=ops)
    await delivered(channels, "**bold**")
    await channels.close()
    assert [(one.text, one.format) for one in ops.asked] == [
        ("<b>bold</b>", Format.TELEGRAM_HTML),
        ("bold", Format.PLAIN),
        ("bold", Format.PLAIN),
    ]
    again = MemoryChannel(platform=Platform.TELEGRAM, answers=[bad])
    channels = here.open(ops=again)
    here.clock.advance(5_000)
    await channels.drain()
    assert [one.format for one in again.asked] == [Format.PLAIN]
    assert [code for kind, code in here.facts() if kind == "dead_lettered"] == [Code.CHANNEL_REFUSED]
    await channels.close()


@clause("12.5")
async def test_what_is_too_long_is_cut_again_and_goes_on_after_a_restart(here: Place) -> None:
    too_long = SendRefused("Bad Request: message is too long", status=400)
    words = " ".join(f"word{number:03}" for number in range(120))
    ops = MemoryChannel(answers=[too_long, too_long, PlatformAck("first part"), LATER, LATER, LATER])
    channels = here.open(ops=ops)
    sent = await delivered(channels, words)
    await channels.close()
    again = MemoryChannel()
    channels = here.open(ops=again)
    here.clock.advance(5_000)
    await channels.drain()
    assert " ".join(ops.texts + again.texts) == words
    parts = ops.taken + again.taken
    assert len({one.key for one in parts}) == len(parts) == 4
    assert all(len(one.text) <= len(words) // 4 for one in parts)
    [message_id] = sent.message_ids
    platform_id = await channels.outbox.within(lambda store: store.ended.find_platform_id(message_id))
    assert platform_id == "first part"
    here.clock.advance(31 * DAY_MS)
    await channels.outbox.sweep()
    assert await channels.outbox.within(lambda store: store.ended.find_platform_id(message_id)) is None
    await channels.close()


@clause("12.5")
@pytest.mark.parametrize("said", [*PERMANENT_TEXTS, "ambiguous name: which recipient?"])
async def test_each_permanent_text_fails_the_entry_after_one_try(here: Place, said: str) -> None:
    ops = MemoryChannel(answers=[SendRefused(f"Error: {said}")])
    channels = here.open(ops=ops)
    sent = await delivered(channels, "hello")
    assert (len(ops.asked), await states(channels, sent)) == (1, [DEAD])
    await channels.close()


async def test_a_lost_answer_is_followed_by_the_same_key_and_reported(here: Place) -> None:
    ops = MemoryChannel(answers=[NoAnswer("reset"), RuntimeError("a bug of the adapter")])
    channels = here.open(ops=ops)
    sent = await delivered(channels, "hello")
    assert await states(channels, sent) == [DELIVERED]
    assert len({one.key for one in ops.asked}) == 1
    assert here.reports() == ["may_repeat", "may_repeat"]
    await channels.close()


@clause("12.6")
@pytest.mark.parametrize(("recognises", "code"), [(False, "may_repeat"), (True, "recognised")])
async def test_a_send_begun_by_a_dead_process_is_repeated_with_its_key_and_reported(
    here: Place, *, recognises: bool, code: str
) -> None:
    ops = MemoryChannel(recognises_repeats=recognises)
    channels = here.open(ops=ops)
    events = channels.outbox.events()
    sent = await channels.deliver(draft("hello"))
    assert isinstance(sent, Enqueued)
    [message_id] = sent.message_ids
    await channels.outbox.within(lambda store: store.progress.store(message_id, ChunkState(is_open=True)))
    await channels.drain()
    assert [one.key for one in ops.taken] == [message_id.hex()]
    assert here.reports() == [code]
    await channels.close()
    told = [
        change.code
        async for change in events
        if isinstance(change, OutboxEvent) and change.notice is OutboxEventType.RETRIED
    ]
    assert told == [code]


@clause("12.6")
async def test_a_second_crash_in_the_window_ends_in_a_dead_letter_that_says_so(here: Place) -> None:
    ops = MemoryChannel()
    channels = here.open(ops=ops)
    sent = await channels.deliver(draft("hello"))
    assert isinstance(sent, Enqueued)
    [message_id] = sent.message_ids
    await channels.outbox.within(lambda store: store.progress.store(message_id, ChunkState(is_open=True, crashes=1)))
    await channels.drain()
    assert (ops.asked, await states(channels, sent)) == ([], [DEAD])
    assert ("dead_lettered", Code.SEND_UNSURE) in here.facts()
    await channels.outbox.recover(message_id)
    await channels.drain()
    assert (await states(channels, sent), here.reports()) == ([DELIVERED], ["may_repeat"])
    await channels.close()
