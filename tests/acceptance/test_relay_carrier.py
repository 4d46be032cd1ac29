"""The relay route over real connections: what drains is stored at a relay of its recipient (SPEC 3.14, 6.5)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from restante.client.contacts import Recipient
from restante.client.outbox import Destination, Message, Outbox
from restante.client.places.mail_carrier import MailCarrier
from restante.client.relay.connector import connect_by_tls
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.mesh_proofs.journal_evidence import receipt_of
from restante.core.mesh_proofs.withholding import is_stored
from restante.model.error_codes import Code
from restante.model.ids import NodeKey
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.places import RelayPlace
from restante.model.states import Route, State
from restante.policy.retry import RetrySchedule
from restante.ports.relay_connection import RelayConnection
from restante.runtime.system import SystemEntropy
from restante.testing.deterministic import FakeClock
from restante.wire.envelope import decode_envelope, hash_sealed_bytes
from restante.wire.inbox_keys import node_id_of
from support.relay.node_processes import free_port
from support.relay.raw_peer import BOB, LOOPBACK, NODE, SOON_S, RunningRelay, running_relay
from support.spec.clauses import clause
from support.sqlite.files import facts, open_client_file
from support.system.wait_until import until_true

LANE = "bob"
HASTY = RetrySchedule(base_ms=100)
DAY_S = 86_400


class Book:
    """One recipient, in lane `bob`, and `control:bob` for control messages."""

    def __init__(self, *places: RelayPlace) -> None:
        self.places: Sequence[RelayPlace] = places

    def recipient(self, lane: str) -> Recipient | None:
        return Recipient(BOB.address, tuple(self.places)) if lane.removeprefix("control:") == LANE else None


class Dialler:
    """Connects by TLS and counts the connections it opened, or tried to open."""

    def __init__(self) -> None:
        self.dialled: list[RelayPlace] = []

    async def __call__(self, place: RelayPlace, owner: OwnInbox | None) -> RelayConnection:
        self.dialled.append(place)
        return await connect_by_tls(place, owner)


def place_of(relay: RunningRelay) -> RelayPlace:
    return RelayPlace(node_key=NODE.node_key, host=LOOPBACK, port=relay.port)


def nowhere() -> RelayPlace:
    return RelayPlace(node_key=NODE.node_key, host=LOOPBACK, port=free_port())


@contextlib.asynccontextmanager
async def sending(
    home: Path, clock: FakeClock, *places: RelayPlace, wrong_keys: list[None] | None = None
) -> AsyncIterator[tuple[Outbox, MailCarrier, Dialler]]:
    dialler = Dialler()
    noted = [] if wrong_keys is None else wrong_keys
    carrier = MailCarrier(
        Book(*places),
        dialler,
        schedule=HASTY,
        clock=clock,
        entropy=SystemEntropy(),
        on_wrong_key=lambda: noted.append(None),
    )
    outbox = Outbox.open(home / "client.db", clock=clock)
    try:
        async with carrier, asyncio.timeout(SOON_S):
            yield outbox, carrier, dialler
    finally:
        outbox.abandon()


async def queue(outbox: Outbox, count: int, lane: str = LANE) -> list[bytes]:
    sealed = [b"%d" % number for number in range(count)]
    for each in sealed:
        await outbox.send(Message(payload=each), Destination(Route.RELAY, lane))
    return sealed


def stored(relay: RunningRelay) -> list[bytes]:
    return [decode_envelope(raw).sealed for raw in relay.held()]


@clause("3.4", "6.1")
async def test_a_drain_stores_everything_at_the_relay_in_order_over_one_connection(tmp_path: Path) -> None:
    async with (
        running_relay(tmp_path) as relay,
        sending(tmp_path, relay.clock, place_of(relay)) as (outbox, carrier, dialler),
    ):
        sent = await queue(outbox, 50)
        assert dialler.dialled == []
        drained = await outbox.drain({Route.RELAY: carrier})
        assert (drained.sent, drained.failed) == (50, 0)
        assert stored(relay) == sent
        assert dialler.dialled == [place_of(relay)]
        reader = await relay.link(BOB)
        assert [decode_envelope((await reader.next_blob()).envelope).sealed for _ in sent] == sent
        await reader.close()


@clause("7.8", "10.2", "13.1")
async def test_the_relays_receipt_of_each_put_is_journaled_as_evidence_that_anybody_can_verify(tmp_path: Path) -> None:
    async with (
        running_relay(tmp_path) as relay,
        sending(tmp_path, relay.clock, place_of(relay)) as (outbox, carrier, _),
    ):
        sent = await queue(outbox, 50)
        await outbox.drain({Route.RELAY: carrier})
    file = open_client_file(tmp_path / "client.db")
    rows = [row for row in facts(file.journal) if row.kind is JournalKind.DELIVERY_CONFIRMED]
    file.database.close()
    receipts = [receipt_of(row) for row in rows]
    assert len({receipt.root for receipt in receipts if receipt is not None}) < len(sent)
    for sealed, row, receipt in zip(sent, rows, receipts, strict=True):
        assert receipt is not None
        assert row.node == node_id_of(NODE.node_key)
        assert is_stored(receipt, NODE.node_key, hash_sealed_bytes(sealed))
        assert not is_stored(receipt, BOB.node_key, hash_sealed_bytes(sealed))
        assert not is_stored(receipt, NODE.node_key, hash_sealed_bytes(sealed + b"!"))


@clause("3.14")
async def test_an_attempt_tries_the_places_in_order_and_ends_at_the_first_that_stores(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay:
        dead, alive = nowhere(), place_of(relay)
        async with sending(tmp_path, relay.clock, dead, alive) as (outbox, carrier, dialler):
            await queue(outbox, 1)
            assert (await outbox.drain({Route.RELAY: carrier})).sent == 1
            assert dialler.dialled == [dead, alive]
        assert stored(relay) == [b"0"]


@clause("3.14", "10.4")
async def test_without_receipt_a_message_is_stored_at_the_next_place_and_before_a_copy_expires_at_every_place(
    tmp_path: Path,
) -> None:
    homes = [tmp_path / name for name in ("first", "second")]
    for home in homes:
        home.mkdir()
    async with (
        running_relay(homes[0]) as first,
        running_relay(homes[1]) as second,
        sending(tmp_path, first.clock, place_of(first), place_of(second)) as (outbox, carrier, _),
    ):
        await outbox.send(Message(payload=b"x", ttl_s=90 * DAY_S), Destination(Route.RELAY, LANE))
        copies = []
        for days in (0, 1, 29, 29):
            for relay in (first, second):
                relay.clock.advance(days * DAY_S * 1_000)
            assert (await outbox.drain({Route.RELAY: carrier})).sent == 1
            copies.append((len(stored(first)), len(stored(second))))
        assert copies == [(1, 0), (1, 1), (2, 2), (3, 3)]


@clause("10.4")
async def test_a_message_is_stored_before_its_copy_expires_although_one_place_is_gone(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay:
        places = (nowhere(), place_of(relay), nowhere())
        async with sending(tmp_path, relay.clock, *places) as (outbox, carrier, dialler):
            await outbox.send(Message(payload=b"x", ttl_s=90 * DAY_S), Destination(Route.RELAY, LANE))
            for days in (0, 1, 29):
                relay.clock.advance(days * DAY_S * 1_000)
                assert (await outbox.drain({Route.RELAY: carrier})).sent == 1
            assert set(dialler.dialled) == set(places)
        assert stored(relay) == [b"x"] * 3


@clause("3.14", "4.3")
async def test_an_attempt_that_reached_no_place_waits_and_does_not_count(tmp_path: Path) -> None:
    clock = FakeClock()
    async with sending(tmp_path, clock, nowhere(), nowhere()) as (outbox, carrier, dialler):
        receipt = await outbox.send(Message(payload=b"x"), Destination(Route.RELAY, LANE))
        assert (await outbox.drain({Route.RELAY: carrier})).failed == 1
        status = await outbox.status(receipt.message_id)
        assert status is not None
        assert (status.state, status.attempts, status.last_error) == (State.PENDING, 0, Code.NETWORK_UNREACHABLE)
        assert len(dialler.dialled) == 2
        assert not carrier.is_connected(LANE)
        assert not carrier.is_up()


async def test_a_relay_that_comes_back_is_tried_again(tmp_path: Path) -> None:
    place = nowhere()
    clock = FakeClock()
    async with sending(tmp_path, clock, place) as (outbox, carrier, _):
        await queue(outbox, 3)
        assert (await outbox.drain({Route.RELAY: carrier})).sent == 0
        async with running_relay(tmp_path, port=place.port) as relay:
            await until_true(carrier.is_up)
            clock.advance(2_000)
            relay.clock.advance(2_000)
            assert (await outbox.drain({Route.RELAY: carrier})).sent == 3


@clause("4.3", "4.4")
async def test_a_lane_without_contact_fails_with_recipient_not_found(tmp_path: Path) -> None:
    clock = FakeClock()
    async with sending(tmp_path, clock) as (outbox, carrier, _):
        receipt = await outbox.send(Message(payload=b"x"), Destination(Route.RELAY, "carol"))
        await outbox.drain({Route.RELAY: carrier})
        status = await outbox.status(receipt.message_id)
        assert status is not None
        assert (status.state, status.last_error) == (State.PENDING, Code.RECIPIENT_NOT_FOUND)


async def test_another_node_at_the_relays_place_is_reported_and_costs_no_message(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay:
        other: list[None] = []
        wrong = replace(place_of(relay), node_key=NodeKey(BOB.node_key))
        async with sending(tmp_path, relay.clock, wrong, wrong_keys=other) as (outbox, carrier, _):
            receipt = await outbox.send(Message(payload=b"x"), Destination(Route.RELAY, LANE))
            await outbox.drain({Route.RELAY: carrier})
            status = await outbox.status(receipt.message_id)
            assert status is not None
            assert (status.state, status.attempts, status.last_error) == (
                State.PENDING,
                0,
                Code.AUTHENTICATION_FAILED,
            )
        assert other == [None]
        assert relay.held() == []


@clause("6.5")
async def test_a_connection_that_only_puts_is_closed_when_it_was_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restante.client.relay.connections.IDLE_S", 0.05)
    async with (
        running_relay(tmp_path) as relay,
        sending(tmp_path, relay.clock, place_of(relay)) as (outbox, carrier, dialler),
    ):
        await queue(outbox, 1)
        await outbox.drain({Route.RELAY: carrier})
        await until_true(lambda: relay.relay.stats().connections == 0)
        assert carrier.is_connected(LANE)
        await queue(outbox, 1)
        assert (await outbox.drain({Route.RELAY: carrier})).sent == 1
        assert len(dialler.dialled) == 2


async def test_what_no_relay_would_take_is_a_dead_letter_at_once(tmp_path: Path) -> None:
    async with (
        running_relay(tmp_path) as relay,
        sending(tmp_path, relay.clock, place_of(relay)) as (outbox, carrier, _),
    ):
        await outbox.send(Message(payload=b""), Destination(Route.RELAY, LANE))
        drained = await outbox.drain({Route.RELAY: carrier})
        assert (drained.sent, drained.failed) == (0, 1)
    file = open_client_file(tmp_path / "client.db")
    assert [fact.code for fact in facts(file.journal) if fact.kind is JournalKind.DEAD_LETTERED] == ["E101"]
    file.database.close()


@clause("6.6", "6.10")
@pytest.mark.parametrize("hours", [-25 * 24, -2, 2, 400 * 24])
async def test_text_and_receipts_are_stored_though_the_clocks_of_client_and_relay_disagree(
    tmp_path: Path, hours: int
) -> None:
    async with running_relay(tmp_path) as relay:
        clock = FakeClock(relay.clock.now_ms() + hours * 3_600_000)
        async with sending(tmp_path, clock, place_of(relay)) as (outbox, carrier, _):
            for kind in (Kind.TEXT, Kind.CONTROL):
                await outbox.send(Message(payload=kind.encode(), kind=kind), Destination(Route.RELAY, LANE))
            drained = await outbox.drain({Route.RELAY: carrier})
            assert (drained.sent, drained.failed) == (2, 0)
        assert sorted(stored(relay)) == [b"control", b"text"]


@clause("6.6", "6.10")
async def test_a_message_that_has_expired_by_the_relays_clock_is_refused_for_now_and_kept(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay:
        clock = FakeClock(relay.clock.now_ms() - 400 * 24 * 3_600_000)
        async with sending(tmp_path, clock, place_of(relay)) as (outbox, carrier, _):
            receipt = await outbox.send(Message(payload=b"x"), Destination(Route.RELAY, LANE))
            await outbox.drain({Route.RELAY: carrier})
            status = await outbox.status(receipt.message_id)
            assert status is not None
            assert status.state is State.PENDING
            relay.clock.advance(-400 * 24 * 3_600_000)  # its operator put it right
            clock.advance(3_600_000)
            assert (await outbox.drain({Route.RELAY: carrier})).sent == 1
