"""The outbox as a library: what an engineer who embeds it can rely on when it sends and drains, without any network."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from restante.client.outbox import Destination, Drained, Message, Outbox
from restante.core.outbox_events import OutboxEventType
from restante.model.error_codes import Code
from restante.model.errors import (
    DuplicateMessageId,
    OutboxFull,
    OutOfRange,
    RestanteError,
    TooLarge,
)
from restante.model.ids import MessageId, mint_message_id
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.send_receipt import Dropped, Queued, Sent
from restante.model.states import DropReason, Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from restante.ports.carrier import StoredByNode
from restante.testing.deterministic import FakeClock
from restante.wire.acks import AckType
from support.outbox.scripted_carrier import DAY_MS, MESH, RELAY, SERVER, Wire, changes, running, sent, state
from support.spec.clauses import clause

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
    async with running(outbox, {Route.MESH: wire}):
        await asyncio.sleep(0)
        assert (await outbox.send(position, MESH)).outcomes == (("bob", Sent()),)
        wire.failures = [Failure.NETWORK_TIMEOUT]
        dropped = Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)
        assert (await outbox.send(position, MESH)).outcomes == (("bob", dropped),)
        assert wire.taken == [b"here"]
        assert await outbox.counts() == {}


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
    await outbox.send_many([(Message(payload=b"x"), MESH)] * 80 + [(Message(payload=b"x"), RELAY)] * 20)
    with pytest.raises(OutboxFull, match="the outbox holds 100 messages; its limit is 100"):
        await outbox.send(Message(payload=b"x"), RELAY)
    assert await outbox.counts() == {State.PENDING: 100}
    await outbox.close()


@clause("3.6", "3.12")
async def test_the_257th_of_an_upstream_lane_evicts_the_oldest_and_says_so(outbox: Outbox) -> None:
    async with outbox.events() as stream:
        first = await sent(outbox, b"0", SERVER)
        await outbox.send_many([(Message(payload=b"x"), SERVER)] * 256)
        seen = await changes(stream, 258)
    assert [(change.message_id, change.code) for change in seen if change.notice is OutboxEventType.EVICTED] == [
        (first, "EvictedForCapacity")
    ]
    assert await outbox.counts() == {State.PENDING: 256}


NO_ID: Any = uuid.UUID("9f1c5a3e-6d0b-4c1e-8a57-2f4e0c9b7d11")
NO_PAIRS: Any = [None, [Message(payload=b"x")], [("bob", b"x")], 7]


@pytest.mark.parametrize("items", NO_PAIRS)
async def test_what_is_no_list_of_messages_and_destinations_is_refused_with_our_error(
    outbox: Outbox, items: Any
) -> None:
    with pytest.raises(RestanteError) as refused:
        await outbox.send_many(items)
    assert refused.value.code is Code.MALFORMED


@pytest.mark.parametrize("action", [Outbox.status, Outbox.cancel, Outbox.recover, Outbox.discard])
async def test_an_id_of_the_wrong_type_is_refused_with_our_error(outbox: Outbox, action: Any) -> None:
    with pytest.raises(RestanteError, match="message_id must be the 16 bytes of a UUIDv4; got UUID"):
        await action(outbox, NO_ID)


@pytest.mark.parametrize(("deadline_s", "code"), [("soon", Code.MALFORMED), (-1, Code.OUT_OF_RANGE)])
async def test_a_deadline_that_is_no_time_is_refused_with_our_error(
    outbox: Outbox, deadline_s: Any, code: Code
) -> None:
    with pytest.raises(RestanteError) as refused:
        await outbox.send(Message(payload=b"x"), MESH, wait=True, deadline_s=deadline_s)
    assert refused.value.code is code
    assert await outbox.counts() == {}


# Draining


@clause("3.3", "3.4")
async def test_a_drain_keeps_lanes_in_order_and_chooses_between_them_by_priority(outbox: Outbox) -> None:
    await sent(outbox, b"relay 1", RELAY, priority=Priority.LOW)
    await sent(outbox, b"relay 2", RELAY, priority=Priority.HIGH)
    await sent(outbox, b"mesh low", MESH, priority=Priority.LOW)
    await sent(outbox, b"mesh high", Destination(Route.MESH, "carol"), priority=Priority.HIGH)
    wire = Wire()
    drained = await outbox.drain({Route.MESH: wire, Route.RELAY: wire})
    assert drained == Drained(sent=4, failed=0, is_complete=True)
    assert wire.taken.index(b"relay 1") < wire.taken.index(b"relay 2")
    assert wire.taken.index(b"mesh high") < wire.taken.index(b"mesh low")


@clause("3.9")
async def test_a_drain_prunes_upstream_traffic_of_seven_days_without_a_word_and_sends_the_rest(
    outbox: Outbox, clock: FakeClock
) -> None:
    await sent(outbox, b"old", SERVER)
    await sent(outbox, b"mail of the same age", MESH)
    clock.advance(7 * DAY_MS)
    await sent(outbox, b"new", SERVER)
    heard: list[OutboxEventType] = []
    outbox.on_event(lambda event: heard.append(event.notice))
    wire = Wire()
    await outbox.drain({Route.UPSTREAM: wire, Route.MESH: wire})
    assert sorted(wire.taken) == [b"mail of the same age", b"new"]
    assert OutboxEventType.EXPIRED not in heard
    assert [event.code for event in outbox.file.journal.events(after=0, limit=100)].count("pruned") == 1


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
async def test_a_failed_head_of_an_upstream_lane_is_not_overtaken(outbox: Outbox, clock: FakeClock) -> None:
    await sent(outbox, b"first", SERVER)
    await sent(outbox, b"second", SERVER)
    wire = Wire(failures=[Failure.NETWORK_TIMEOUT])
    assert await outbox.drain({Route.UPSTREAM: wire}) == Drained(sent=0, failed=1, is_complete=True)
    assert wire.taken == []
    clock.advance(1_200)
    await outbox.drain({Route.UPSTREAM: wire})
    assert wire.taken == [b"first", b"second"]
    assert wire.most_under_way == 1


@clause("3.4")
async def test_a_recipients_lane_has_up_to_256_in_flight(outbox: Outbox) -> None:
    await outbox.send_many([(Message(payload=b"x"), MESH)] * 600)
    wire = Wire()
    assert (await outbox.drain({Route.MESH: wire})).sent == 600
    assert wire.most_under_way == 256


@clause("3.10")
async def test_a_drain_stops_when_its_budget_is_spent_and_the_rest_waits(tmp_path: Path, clock: FakeClock) -> None:
    outbox = Outbox.open(tmp_path / "outbox.db", clock=clock)
    await outbox.send_many([(Message(payload=b"x"), SERVER)] * 10)
    wire = Wire(clock=clock)
    assert await outbox.drain({Route.UPSTREAM: wire}, budget_ms=3_000) == Drained(sent=3, failed=0, is_complete=False)
    assert await outbox.counts() == {State.PENDING: 7}
    await outbox.close()


@clause("3.10")
async def test_what_was_waiting_at_the_start_is_drained_at_once_and_what_comes_later_as_it_comes(
    outbox: Outbox,
) -> None:
    await sent(outbox, b"from yesterday")
    wire = Wire()
    async with running(outbox, {Route.MESH: wire}), outbox.events() as stream:
        assert [change.notice for change in await changes(stream, 1)] == [OutboxEventType.SENT]
        await sent(outbox, b"from today")
        notices = [change.notice for change in await changes(stream, 2)]
    assert notices == [OutboxEventType.QUEUED, OutboxEventType.SENT]
    assert wire.taken == [b"from yesterday", b"from today"]


@clause("3.10")
async def test_closing_drains_connected_lanes_once_more_and_keeps_the_rest(tmp_path: Path, clock: FakeClock) -> None:
    outbox = Outbox.open(tmp_path / "outbox.db", clock=clock)
    wire = Wire(down=["relay-1"])
    async with running(outbox, {Route.MESH: wire, Route.RELAY: wire}):
        await asyncio.sleep(0)
    await sent(outbox, b"goes out", MESH)
    stays = await sent(outbox, b"stays", RELAY)
    await outbox.close()
    assert wire.taken == [b"goes out"]
    reopened = Outbox.open(tmp_path / "outbox.db", clock=clock)
    assert await state(reopened, stays) is State.PENDING
    await reopened.close()


async def test_a_drain_that_is_cancelled_gives_its_claims_back(outbox: Outbox) -> None:
    class Silent(Wire):
        async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
            self.taken.append(entry.payload)
            has_begun.set()
            await asyncio.Event().wait()
            return ()

    has_begun = asyncio.Event()
    message_id = await sent(outbox, b"x")
    draining = asyncio.create_task(outbox.drain({Route.MESH: Silent()}))
    await has_begun.wait()
    draining.cancel()
    await asyncio.gather(draining, return_exceptions=True)
    status = await outbox.status(message_id)
    assert status is not None
    assert (status.state, status.attempts, status.last_error) == (State.PENDING, 0, Code.NETWORK_UNREACHABLE)
