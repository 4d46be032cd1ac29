"""The outbox as a library: what becomes of what was sent, and who is told, without any network."""

import asyncio
from pathlib import Path

import pytest

from restante.client import event_stream as events_module
from restante.client.event_stream import Missed
from restante.client.outbox import Message, Outbox
from restante.core.outbox_events import OutboxEventType
from restante.model.error_codes import Code
from restante.model.errors import (
    LocalProtocolError,
    OutboxFull,
    RestanteError,
)
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Confirmation, Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent
from restante.testing.deterministic import FakeClock
from restante.wire.acks import AckType
from support.outbox.scripted_carrier import CHAT, DAY_MS, HOUR_MS, MESH, RELAY, Wire, changes, sent, state
from support.spec.clauses import clause

# What follows


@clause("3.8", "3.13")
async def test_receipts_end_a_message_and_a_later_read_still_finds_it(outbox: Outbox, clock: FakeClock) -> None:
    message_id = await sent(outbox, b"x")
    await outbox.drain({Route.MESH: Wire()})
    assert await state(outbox, message_id) is State.SENT
    await outbox.acknowledge(message_id, AckType.RECEIPT)
    assert await outbox.counts() == {}
    clock.advance(20 * DAY_MS)
    async with outbox.events() as stream:
        await outbox.acknowledge(message_id, AckType.READ)
        await outbox.acknowledge(message_id, AckType.READ)
        await outbox.acknowledge(message_id, AckType.DELIVERY)
        assert [change.notice for change in await changes(stream, 1)] == [OutboxEventType.READ]
    status = await outbox.status(message_id)
    assert status is not None
    assert (status.state, status.confirmation) == (State.DELIVERED, Confirmation.READ)


@clause("3.8")
async def test_a_channel_message_ends_when_the_platform_took_it(outbox: Outbox) -> None:
    message_id = await sent(outbox, b"x", CHAT)
    await outbox.drain({Route.CHANNEL: Wire()})
    assert await state(outbox, message_id) is State.DELIVERED


@clause("5.2", "5.4")
async def test_a_dead_letter_is_recovered_sent_and_delivered(outbox: Outbox) -> None:
    message_id = await sent(outbox, b"x")
    await outbox.drain({Route.MESH: Wire(failures=[Failure.TOO_LARGE])})
    assert await state(outbox, message_id) is State.DEAD
    await outbox.recover(message_id)
    wire = Wire()
    await outbox.drain({Route.MESH: wire})
    assert wire.taken == [b"x"]
    assert await state(outbox, message_id) is State.SENT


@clause("5.2", "5.4")
async def test_a_cancelled_message_is_a_dead_letter_that_can_be_discarded(outbox: Outbox) -> None:
    message_id = await sent(outbox, b"x")
    assert await outbox.cancel(message_id) is True
    assert await outbox.cancel(message_id) is False
    assert await state(outbox, message_id) is State.DEAD
    assert await outbox.discard(message_id) is True
    assert await outbox.discard(message_id) is False
    assert await outbox.status(message_id) is None
    with pytest.raises(RestanteError, match="no dead letter") as refused:
        await outbox.recover(message_id)
    assert refused.value.code is Code.NOT_FOUND


@clause("5.4")
async def test_an_expired_message_cannot_be_recovered(outbox: Outbox, clock: FakeClock) -> None:
    message_id = await sent(outbox, b"x", ttl_s=3_600)
    await outbox.cancel(message_id)
    clock.advance(HOUR_MS)
    with pytest.raises(LocalProtocolError) as refused:
        await outbox.recover(message_id)
    assert refused.value.code is Code.TTL_EXPIRED
    assert await state(outbox, message_id) is State.DEAD


@clause("4.4")
async def test_a_message_is_sealed_anew_once_when_its_encryption_failed_and_then_given_up(
    tmp_path: Path, clock: FakeClock
) -> None:
    resealed: list[bytes] = []

    def reseal(entry: OutboxEntry) -> bytes:
        resealed.append(entry.sealed_plaintext)
        return b"sealed anew"

    outbox = Outbox.open(tmp_path / "outbox.db", clock=clock, reseal=reseal)
    first = await outbox.send(Message(payload=b"sealed badly", sealed_plaintext=b"kept"), MESH)
    second = await outbox.send(Message(payload=b"no better", sealed_plaintext=b"kept too"), MESH)
    wire = Wire(failures=[Failure.ENCRYPTION_FAILED, Failure.ENCRYPTION_FAILED])
    await outbox.drain({Route.MESH: wire})
    assert resealed == [b"kept", b"kept too"]
    clock.advance(2_000)
    wire.failures = [Failure.ENCRYPTION_FAILED]
    await outbox.drain({Route.MESH: wire})
    assert wire.taken == [b"sealed anew"]
    assert {await state(outbox, first.message_id), await state(outbox, second.message_id)} == {State.DEAD, State.SENT}
    await outbox.close()


@clause("3.6", "5.4")
async def test_a_dead_letter_is_not_recovered_into_a_full_outbox(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path / "small.db", settings=Settings(outbox=OutboxLimits(max_entries=100)))
    message_id = await sent(outbox, b"x")
    await outbox.cancel(message_id)
    await outbox.send_many([(Message(payload=b"x"), MESH)] * 100)
    with pytest.raises(OutboxFull):
        await outbox.recover(message_id)
    assert await state(outbox, message_id) is State.DEAD
    await outbox.close()


@clause("3.6", "5.4")
async def test_a_dead_letter_is_not_recovered_into_a_full_lane_where_it_would_be_evicted(outbox: Outbox) -> None:
    message_id = await sent(outbox, b"x", RELAY)
    await outbox.cancel(message_id)
    await outbox.send_many([(Message(payload=b"x"), RELAY)] * 256)
    with pytest.raises(OutboxFull, match="the dead letter stays where it is"):
        await outbox.recover(message_id)
    assert await state(outbox, message_id) is State.DEAD
    assert await outbox.counts() == {State.PENDING: 256}


@clause("2.2", "5.3")
async def test_a_retriable_dead_letter_is_tried_again_by_itself_once_a_day(outbox: Outbox, clock: FakeClock) -> None:
    message_id = await sent(outbox, b"x", ttl_s=90 * 86_400)
    clock.advance(DAY_MS)  # the longest a normal message may wait unsent
    await outbox.sweep()
    assert await state(outbox, message_id) is State.DEAD
    clock.advance(DAY_MS - 1)
    await outbox.sweep()
    assert await state(outbox, message_id) is State.DEAD
    clock.advance(1)
    await outbox.sweep()
    assert await state(outbox, message_id) is State.PENDING


@clause("5.3")
async def test_daily_retries_do_not_keep_a_dead_letter_longer_than_seven_days(outbox: Outbox, clock: FakeClock) -> None:
    message_id = await sent(outbox, b"x", ttl_s=90 * 86_400)
    days = 0
    while await outbox.status(message_id) is not None:
        clock.advance(DAY_MS)
        days += 1
        await outbox.sweep()
        assert days < 30, "it is kept for ever"
    # One day waiting unsent, then seven as a dead letter; retries fall into these, they add nothing.
    assert days == 8


# Events


@clause("3.12")
async def test_a_callback_that_fails_is_reported_and_harms_no_send(outbox: Outbox) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context["exception"]))
    problem = RuntimeError("of the application")

    def fail(_change: OutboxEvent) -> None:
        raise problem

    outbox.on_event(fail)
    heard: list[OutboxEvent] = []
    outbox.on_event(heard.append)
    message_id = await sent(outbox, b"x")
    assert reported == [problem]
    assert [change.message_id for change in heard] == [message_id]
    assert await state(outbox, message_id) is State.PENDING


async def test_a_callback_hears_every_change_after_it_is_on_disk(outbox: Outbox) -> None:
    heard: list[tuple[OutboxEventType, str | None]] = []
    stop = outbox.on_event(lambda change: heard.append((change.notice, change.code)))
    message_id = await sent(outbox, b"x")
    await outbox.drain({Route.MESH: Wire(failures=[Failure.AUTHENTICATION_FAILED])})
    await outbox.recover(message_id)
    await outbox.drain({Route.MESH: Wire()})
    await outbox.acknowledge(message_id, AckType.DELIVERY)
    await outbox.acknowledge(message_id, AckType.READ)
    stop()
    await sent(outbox, b"unheard")
    assert heard == [
        (OutboxEventType.QUEUED, None),
        (OutboxEventType.SECURITY, "session_reset"),
        (OutboxEventType.DEAD_LETTERED, "E103"),
        (OutboxEventType.RECOVERED, None),
        (OutboxEventType.SENT, None),
        (OutboxEventType.DELIVERY_CONFIRMED, None),
        (OutboxEventType.DELIVERED, None),
        (OutboxEventType.READ, None),
    ]


@clause("3.12")
async def test_expiry_and_retries_are_told_too(outbox: Outbox, clock: FakeClock) -> None:
    heard: list[OutboxEventType] = []
    outbox.on_event(lambda change: heard.append(change.notice))
    await sent(outbox, b"x", ttl_s=3_600)
    await outbox.drain({Route.MESH: Wire(failures=[Failure.NETWORK_TIMEOUT])})
    clock.advance(HOUR_MS)
    await outbox.drain({Route.MESH: Wire()})
    assert heard == [OutboxEventType.QUEUED, OutboxEventType.RETRIED, OutboxEventType.EXPIRED]


async def test_a_slow_reader_is_told_how_much_it_missed(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "MAX_WAITING", 3)
    async with outbox.events() as stream:
        await outbox.send_many([(Message(payload=b"x"), MESH)] * 5)
        assert len(await changes(stream, 1)) == 1
        assert await anext(stream) == Missed(2)
        await sent(outbox, b"x")
        rest = [await anext(stream) for _ in range(3)]
    assert all(not isinstance(change, Missed) for change in rest)


async def test_closing_ends_the_streams(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path / "outbox.db")
    stream = outbox.events()
    await outbox.close()
    assert [change async for change in stream] == []
