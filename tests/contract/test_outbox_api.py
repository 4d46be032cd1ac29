"""The outbox as a library: what an engineer who embeds it can rely on, without any network."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from clauses import clause
from patience import LIMIT_S
from restante.client import events as events_module
from restante.client.events import EventStream, Missed
from restante.client.outbox import Destination, Drained, Message, Outbox
from restante.core.outbox_events import Notice
from restante.model.codes import Code
from restante.model.errors import (
    DuplicateMessageId,
    LocalProtocolError,
    OutboxFull,
    OutOfRange,
    RestanteError,
    TooLarge,
)
from restante.model.ids import MessageId, mint_message_id
from restante.model.kinds import Kind, Priority
from restante.model.records import Dropped, OutboxEntry, Queued, Sent
from restante.model.states import Confirmation, DropReason, Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from restante.ports.relay import TryFailed
from restante.runtime.sqlite.outbox_records import Change
from restante.testing.seeded import FakeClock, SeededEntropy
from restante.wire.acks import AckType

MESH = Destination(Route.MESH, "bob")
RELAY = Destination(Route.RELAY, "relay-1")
CHAT = Destination(Route.CHANNEL, "chat-1")
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Wire:
    """A carrier that notes what it was given, and fails as told."""

    def __init__(
        self, *, down: Iterable[str] = (), failures: Iterable[Failure] = (), clock: FakeClock | None = None
    ) -> None:
        self.taken: list[bytes] = []
        self.down = set(down)
        self.failures = list(failures)
        self.is_route_down = False
        self.asked: list[str] = []
        self.under_way = 0
        self.most_under_way = 0
        self._clock = clock

    def is_up(self) -> bool:
        return not self.is_route_down

    def is_connected(self, lane: str) -> bool:
        self.asked.append(lane)
        return lane not in self.down

    async def transmit(self, entry: OutboxEntry) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if self._clock is not None:
            self._clock.advance(1_000)
        if self.failures:
            raise TryFailed("as told", failure=self.failures.pop(0), retry_after_ms=5_000)
        self.taken.append(entry.payload)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def outbox(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Outbox]:
    made = Outbox.open(tmp_path / "outbox.db", clock=clock, entropy=SeededEntropy(1))
    yield made
    await made.close()


async def sent(
    outbox: Outbox,
    payload: bytes,
    to: Destination = MESH,
    *,
    ttl_s: int | None = None,
    priority: Priority | None = None,
) -> MessageId:
    return (await outbox.send(Message(payload=payload, ttl_s=ttl_s, priority=priority), to)).message_id


async def changes(stream: EventStream[Change], count: int) -> list[Change]:
    seen = [await anext(stream) for _ in range(count)]
    return [change for change in seen if isinstance(change, Change)]


async def state(outbox: Outbox, message_id: MessageId) -> State | None:
    status = await outbox.status(message_id)
    return None if status is None else status.state


# Sending


@clause("3.7")
async def test_each_destination_has_its_own_id_and_outcome(outbox: Outbox) -> None:
    receipt = await outbox.send(Message(payload=b"to both"), MESH, RELAY)
    assert receipt.outcomes == (("bob", Queued()), ("relay-1", Queued()))
    assert len({delivery.message_id for delivery in receipt.deliveries}) == 2
    assert await outbox.counts() == {State.PENDING: 2}


@clause("2.4", "3.7")
async def test_an_unknown_kind_is_dropped_with_the_reason(outbox: Outbox) -> None:
    receipt = await outbox.send(Message(payload=b"?", kind="telegram"), MESH)
    assert receipt.outcomes == (("bob", Dropped(DropReason.NOT_QUEUE_ELIGIBLE)),)
    assert await outbox.counts() == {}


@clause("2.4", "3.7")
async def test_a_position_is_sent_live_or_dropped_and_never_queued(outbox: Outbox) -> None:
    position = Message(payload=b"here", kind=Kind.POSITION)
    assert (await outbox.send(position, MESH)).outcomes == (("bob", Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)),)
    wire = Wire()
    running = asyncio.create_task(outbox.run({Route.MESH: wire}))
    await asyncio.sleep(0)
    assert (await outbox.send(position, MESH)).outcomes == (("bob", Sent()),)
    wire.failures = [Failure.NETWORK_TIMEOUT]
    assert (await outbox.send(position, MESH)).outcomes == (("bob", Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)),)
    assert wire.taken == [b"here"]
    assert await outbox.counts() == {}
    running.cancel()


@clause("2.5", "2.8")
@pytest.mark.parametrize(
    ("message", "refusal", "code"),
    [
        (Message(payload=bytes(262_145)), TooLarge, Code.MESSAGE_TOO_LARGE),
        (Message(payload=b"x", ttl_s=3_599), OutOfRange, Code.OUT_OF_RANGE),
        (Message(payload=b"x", ttl_s=7_776_001), OutOfRange, Code.OUT_OF_RANGE),
        (Message(payload=b"x", kind=Kind.DISAPPEARING), OutOfRange, Code.OUT_OF_RANGE),
        (Message(payload=b"x", message_id=MessageId(bytes(16))), RestanteError, Code.MALFORMED),
    ],
    ids=["too large", "ttl too short", "ttl too long", "no ttl", "no UUIDv4"],
)
async def test_bad_input_is_refused_with_its_code_and_nothing_is_kept(
    outbox: Outbox, message: Message, refusal: type[RestanteError], code: Code
) -> None:
    with pytest.raises(refusal) as refused:
        await outbox.send(message, MESH)
    assert refused.value.code is code
    assert await outbox.counts() == {}


async def test_the_largest_payload_and_the_ends_of_a_ttl_range_are_accepted(outbox: Outbox) -> None:
    for message in (
        Message(payload=bytes(262_144)),
        Message(payload=b"x", ttl_s=3_600),
        Message(payload=b"x", ttl_s=7_776_000),
    ):
        assert (await outbox.send(message, MESH)).outcomes == (("bob", Queued()),)


async def test_a_send_to_nobody_or_with_one_id_for_two_is_refused(outbox: Outbox) -> None:
    with pytest.raises(RestanteError, match="at least one destination"):
        await outbox.send(Message(payload=b"x"))
    with pytest.raises(RestanteError, match="names one destination"):
        await outbox.send(Message(payload=b"x", message_id=mint_message_id(bytes(16))), MESH, RELAY)


async def test_a_known_message_id_is_refused_and_the_first_message_kept(outbox: Outbox) -> None:
    chosen = mint_message_id(b"z" * 16)
    await outbox.send(Message(payload=b"first", message_id=chosen), MESH)
    with pytest.raises(DuplicateMessageId):
        await outbox.send(Message(payload=b"second", message_id=chosen), MESH)
    wire = Wire()
    await outbox.drain({Route.MESH: wire})
    await outbox.acknowledge(chosen, AckType.RECEIPT)
    with pytest.raises(DuplicateMessageId):
        await outbox.send(Message(payload=b"after the end", message_id=chosen), MESH)
    assert wire.taken == [b"first"]


async def test_of_many_messages_all_are_accepted_or_none(outbox: Outbox) -> None:
    fine = (Message(payload=b"fine"), MESH)
    with pytest.raises(TooLarge):
        await outbox.send_many([fine, fine, (Message(payload=bytes(262_145)), MESH)])
    assert await outbox.counts() == {}
    receipts = await outbox.send_many([fine] * 100)
    assert len({receipt.message_id for receipt in receipts}) == 100
    assert await outbox.counts() == {State.PENDING: 100}


@clause("3.6")
async def test_a_full_outbox_says_its_limits_and_evicts_nothing(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path / "small.db", settings=Settings(outbox=OutboxLimits(max_entries=100)))
    await outbox.send_many([(Message(payload=b"x"), MESH)] * 100)
    with pytest.raises(OutboxFull, match="100 entries and 50000000 bytes"):
        await outbox.send(Message(payload=b"x"), MESH)
    assert await outbox.counts() == {State.PENDING: 100}
    await outbox.close()


@clause("3.6", "3.12")
async def test_the_257th_of_a_relay_lane_evicts_the_oldest_and_says_so(outbox: Outbox) -> None:
    async with outbox.events() as stream:
        first = await sent(outbox, b"0", RELAY)
        await outbox.send_many([(Message(payload=b"x"), RELAY)] * 256)
        seen = await changes(stream, 258)
    assert [(change.message_id, change.code) for change in seen if change.notice is Notice.EVICTED] == [
        (first, "EvictedForCapacity")
    ]
    assert await outbox.counts() == {State.PENDING: 256}


# Draining


@clause("3.3", "3.4")
async def test_a_drain_keeps_strict_lanes_in_order_and_others_by_priority(outbox: Outbox) -> None:
    await sent(outbox, b"relay 1", RELAY, priority=Priority.LOW)
    await sent(outbox, b"relay 2", RELAY, priority=Priority.HIGH)
    await sent(outbox, b"mesh low", MESH, priority=Priority.LOW)
    await sent(outbox, b"mesh high", MESH, priority=Priority.HIGH)
    wire = Wire()
    drained = await outbox.drain({Route.MESH: wire, Route.RELAY: wire})
    assert drained == Drained(sent=4, failed=0, is_complete=True)
    assert wire.taken.index(b"relay 1") < wire.taken.index(b"relay 2")
    assert wire.taken.index(b"mesh high") < wire.taken.index(b"mesh low")


@clause("3.3")
async def test_a_lane_that_is_down_waits_and_holds_up_nobody(outbox: Outbox) -> None:
    waiting = await sent(outbox, b"down", Destination(Route.RELAY, "down"))
    await sent(outbox, b"up", Destination(Route.RELAY, "up"))
    wire = Wire(down=["down"])
    assert (await outbox.drain({Route.RELAY: wire})).sent == 1
    assert wire.taken == [b"up"]
    status = await outbox.status(waiting)
    assert status is not None
    assert (status.state, status.attempts) == (State.PENDING, 0)


async def test_a_route_that_is_down_is_not_asked_lane_by_lane(outbox: Outbox) -> None:
    await outbox.send_many([(Message(payload=b"x"), Destination(Route.MESH, f"peer {n}")) for n in range(200)])
    await sent(outbox, b"by relay", RELAY)
    mesh, relay = Wire(), Wire()
    mesh.is_route_down = True
    assert (await outbox.drain({Route.MESH: mesh, Route.RELAY: relay})).sent == 1
    assert mesh.asked == []
    mesh.is_route_down = False
    assert (await outbox.drain({Route.MESH: mesh})).sent == 200


@clause("3.4")
async def test_a_failed_head_of_a_strict_lane_is_not_overtaken(outbox: Outbox, clock: FakeClock) -> None:
    await sent(outbox, b"first", RELAY)
    await sent(outbox, b"second", RELAY)
    wire = Wire(failures=[Failure.NETWORK_TIMEOUT])
    assert await outbox.drain({Route.RELAY: wire}) == Drained(sent=0, failed=1, is_complete=True)
    assert wire.taken == []
    clock.advance(1_200)
    await outbox.drain({Route.RELAY: wire})
    assert wire.taken == [b"first", b"second"]


async def test_a_drain_has_at_most_64_tries_under_way(outbox: Outbox) -> None:
    await outbox.send_many([(Message(payload=b"x"), MESH)] * 200)
    wire = Wire()
    assert (await outbox.drain({Route.MESH: wire})).sent == 200
    assert 2 <= wire.most_under_way <= 64


class Death(BaseException):
    """Not even an exception."""


@pytest.mark.parametrize("crash", [ValueError, asyncio.CancelledError, Death])
async def test_whatever_a_carrier_raises_ends_the_drain_and_its_claims_are_given_back(
    outbox: Outbox, crash: type[BaseException]
) -> None:
    class Broken(Wire):
        async def transmit(self, entry: OutboxEntry) -> None:
            raise crash(entry.lane)

    sent = await outbox.send(Message(payload=b"x"), MESH)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(crash):
            await outbox.drain({Route.MESH: Broken()})
    status = await outbox.status(sent.message_id)
    assert status is not None
    assert (status.state, status.last_error) == (State.PENDING, Code.NETWORK_UNREACHABLE)


@clause("3.10")
async def test_a_drain_stops_when_its_budget_is_spent_and_the_rest_waits(tmp_path: Path, clock: FakeClock) -> None:
    outbox = Outbox.open(tmp_path / "outbox.db", clock=clock)
    await outbox.send_many([(Message(payload=b"x"), RELAY)] * 10)
    wire = Wire(clock=clock)
    assert await outbox.drain({Route.RELAY: wire}, budget_ms=3_000) == Drained(sent=3, failed=0, is_complete=False)
    assert await outbox.counts() == {State.SENT: 3, State.PENDING: 7}
    await outbox.close()


@clause("3.10")
async def test_what_was_waiting_at_the_start_is_drained_at_once_and_what_comes_later_as_it_comes(
    outbox: Outbox,
) -> None:
    await sent(outbox, b"from yesterday")
    wire = Wire()
    running = asyncio.create_task(outbox.run({Route.MESH: wire}))
    async with outbox.events() as stream:
        assert [change.notice for change in await changes(stream, 1)] == [Notice.SENT]
        await sent(outbox, b"from today")
        notices = [change.notice for change in await changes(stream, 2)]
    assert notices == [Notice.QUEUED, Notice.SENT]
    assert wire.taken == [b"from yesterday", b"from today"]
    running.cancel()


@clause("3.10")
async def test_closing_drains_connected_lanes_once_more_and_keeps_the_rest(tmp_path: Path, clock: FakeClock) -> None:
    outbox = Outbox.open(tmp_path / "outbox.db", clock=clock)
    wire = Wire(down=["relay-1"])
    running = asyncio.create_task(outbox.run({Route.MESH: wire, Route.RELAY: wire}))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await sent(outbox, b"goes out", MESH)
    stays = await sent(outbox, b"stays", RELAY)
    await outbox.close()
    assert wire.taken == [b"goes out"]
    reopened = Outbox.open(tmp_path / "outbox.db", clock=clock)
    assert await state(reopened, stays) is State.PENDING
    await reopened.close()


async def test_a_drain_that_is_cancelled_gives_its_claims_back(outbox: Outbox) -> None:
    class Silent(Wire):
        async def transmit(self, entry: OutboxEntry) -> None:
            self.taken.append(entry.payload)
            has_begun.set()
            await asyncio.Event().wait()

    has_begun = asyncio.Event()
    message_id = await sent(outbox, b"x")
    draining = asyncio.create_task(outbox.drain({Route.MESH: Silent()}))
    await has_begun.wait()
    draining.cancel()
    await asyncio.gather(draining, return_exceptions=True)
    status = await outbox.status(message_id)
    assert status is not None
    assert (status.state, status.last_error) == (State.PENDING, Code.NETWORK_UNREACHABLE)


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
        assert [change.notice for change in await changes(stream, 1)] == [Notice.READ]
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

    def fail(_change: Change) -> None:
        raise problem

    outbox.on_event(fail)
    heard: list[Change] = []
    outbox.on_event(heard.append)
    message_id = await sent(outbox, b"x")
    assert reported == [problem]
    assert [change.message_id for change in heard] == [message_id]
    assert await state(outbox, message_id) is State.PENDING


async def test_a_callback_hears_every_change_after_it_is_on_disk(outbox: Outbox) -> None:
    heard: list[tuple[Notice, str | None]] = []
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
        (Notice.QUEUED, None),
        (Notice.SECURITY, "session_reset"),
        (Notice.DEAD_LETTERED, "E103"),
        (Notice.RECOVERED, None),
        (Notice.SENT, None),
        (Notice.DELIVERY_CONFIRMED, None),
        (Notice.DELIVERED, None),
        (Notice.READ, None),
    ]


@clause("3.12")
async def test_expiry_and_retries_are_told_too(outbox: Outbox, clock: FakeClock) -> None:
    heard: list[Notice] = []
    outbox.on_event(lambda change: heard.append(change.notice))
    await sent(outbox, b"x", ttl_s=3_600)
    await outbox.drain({Route.MESH: Wire(failures=[Failure.NETWORK_TIMEOUT])})
    clock.advance(HOUR_MS)
    await outbox.drain({Route.MESH: Wire()})
    assert heard == [Notice.QUEUED, Notice.RETRIED, Notice.EXPIRED]


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
