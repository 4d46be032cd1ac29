"""The power fails at each write and each sync of an outbox's life; what was promised before is there afterwards."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from restante.core.outbox_events import Cancelled, ReceiptAcked, Recovered, TransmitFailed, TransmitSucceeded
from restante.model.errors import StoreUnusable
from restante.model.ids import MessageId, event_number
from restante.model.states import IN_FLIGHT, Route, State
from restante.policy.failures import Failure
from restante.runtime.sqlite.file.integrity import check_file
from restante.testing.crashing_disk import CrashingDisk
from support.fleet.journal_files import message
from support.outbox.entries import accept, entry
from support.spec.clauses import clause
from support.sqlite.files import (
    NOW_MS,
    ClientFile,
    assert_books_balance,
    facts,
    open_client_file,
    states_by_journal,
    states_by_rows,
)
from support.system.full_disk import no_file_longer_than
from support.system.soak import first_now_rest_in_soak

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
PAYLOAD_BYTES = 9_000
CRASH_SEEDS = range(8)


@dataclass(kw_only=True)
class Promises:
    """What a caller was told before the power failed, by calls that returned."""

    accepted: list[MessageId] = field(default_factory=list)
    states: dict[MessageId, State] = field(default_factory=dict)
    ends: bool = False


def live(file: ClientFile, promises: Promises) -> None:
    """A small life of an outbox: each kind of change once."""
    outbox = file.outbox

    def keep(number: int, state: State) -> None:
        promises.states[message(number)] = state

    for number, route in ((1, Route.RELAY), (2, Route.MESH), (3, Route.RELAY)):
        new = entry(
            number, route=route, lane=f"lane-{number}", expires_at_ms=NOW_MS + 2 * DAY_MS, payload=bytes(PAYLOAD_BYTES)
        )
        accept(outbox, new)
        promises.accepted.append(message(number))
        keep(number, State.PENDING)
    assert len(outbox.lease(owner="me", routes=tuple(Route), limit=3, now_ms=NOW_MS)) == 3
    for number in (1, 2, 3):
        keep(number, State.SENDING)
    failed = TransmitFailed(owner="me", failure=Failure.NETWORK_TIMEOUT)
    outbox.apply(message(1), failed, now_ms=NOW_MS)
    keep(1, State.PENDING)
    outbox.apply(message(2), TransmitSucceeded(), now_ms=NOW_MS)
    keep(2, State.SENT)
    outbox.apply(message(2), ReceiptAcked(), now_ms=NOW_MS)
    keep(2, State.DELIVERED)
    outbox.apply(message(3), Cancelled(), now_ms=NOW_MS)
    keep(3, State.DEAD)
    outbox.apply(message(3), Recovered(), now_ms=NOW_MS + HOUR_MS)
    keep(3, State.PENDING)
    outbox.apply(message(1), Cancelled(), now_ms=NOW_MS + DAY_MS)
    keep(1, State.DEAD)
    outbox.run_maintenance(now_ms=NOW_MS + DAY_MS + HOUR_MS)
    outbox.apply(message(3), TransmitSucceeded(), now_ms=NOW_MS + DAY_MS + HOUR_MS)
    keep(3, State.SENT)
    outbox.sweep(now_ms=NOW_MS + 3 * DAY_MS)
    keep(3, State.EXPIRED)
    outbox.run_maintenance(now_ms=NOW_MS + 40 * DAY_MS)
    promises.ends = True


def live_until_the_power_fails(path: Path, disk: CrashingDisk, *, synchronous: str = "FULL") -> Promises:
    promises = Promises()
    with disk.plugged_in(), suppress(StoreUnusable):
        file = open_client_file(path)
        file.database.run(f"PRAGMA synchronous = {synchronous}")
        live(file, promises)
    disk.lose_unsynced()
    return promises


def operations_of_a_whole_life(directory: Path) -> int:
    disk = CrashingDisk()
    assert live_until_the_power_fails(directory / "whole.db", disk).ends
    return disk.operations


NEXT_STATES = {
    State.PENDING: {State.SENDING, State.DEAD, State.SENT},
    State.SENDING: {State.PENDING, State.SENT, State.DEAD},
    State.SENT: {State.DELIVERED, State.EXPIRED},
    State.DEAD: {State.PENDING},
    State.DELIVERED: set[State](),
    State.EXPIRED: set[State](),
}
"""The one change that may have been made when the power failed before its caller was told."""


def assert_as_promised(file: ClientFile, promises: Promises) -> None:
    told = states_by_journal(file.journal)
    assert set(promises.accepted) <= told.keys()
    assert len(told) <= len(promises.accepted) + 1
    for message_id, state in promises.states.items():
        assert told[message_id] in {state} | NEXT_STATES[state]
    discarded = {fact.message_id for fact in facts(file.journal) if fact.kind == "discarded"}
    rows = states_by_rows(file.database)
    without_a_row = {State.DELIVERED}
    assert rows == {one: state for one, state in told.items() if state not in without_a_row and one not in discarded}
    numbers = [event_number(fact.event_id) for fact in facts(file.journal)]
    assert numbers == list(range(1, len(numbers) + 1))
    held = sum(state is not State.EXPIRED for state in rows.values())
    assert file.outbox.held() == (held, held * PAYLOAD_BYTES)
    assert [check.findings for check in check_file(file.database) if check.findings] == []
    assert file.database.run("PRAGMA integrity_check") == [("ok",)]
    assert file.database.run("PRAGMA foreign_key_check") == []


def assert_nothing_is_stuck(file: ClientFile) -> None:
    """Each waiting or claimed entry can be had by the next owner, at the latest when its claim has lapsed."""
    waiting = {one.message_id for one in file.outbox.entries(limit=10) if one.state is not State.SENT}
    latest_ms = max((one.next_attempt_at_ms for one in file.outbox.entries(limit=10)), default=NOW_MS)
    at_ms = min(latest_ms, NOW_MS + DAY_MS + HOUR_MS) + MINUTE_MS
    leased = file.outbox.lease(owner="the next", routes=tuple(Route), limit=10, now_ms=at_ms)
    ended = {one for one, state in states_by_rows(file.database).items() if state not in IN_FLIGHT}
    assert waiting <= {one.message_id for one in leased} | ended


@clause("3.2", "3.11", "1.3", "1.4")
@pytest.mark.parametrize("seed", first_now_rest_in_soak(CRASH_SEEDS))
def test_the_power_may_fail_at_any_write_or_sync_and_nothing_promised_is_lost(tmp_path: Path, seed: int) -> None:
    whole = operations_of_a_whole_life(tmp_path)
    assert whole > 100
    for fails_at in range(1, whole + 1):
        path = tmp_path / f"{fails_at}.db"
        disk = CrashingDisk(fails_at=fails_at, seed=seed * 1_000 + fails_at)
        promises = live_until_the_power_fails(path, disk)
        assert disk.is_down
        with CrashingDisk().plugged_in():  # whole again
            file = open_client_file(path)
            assert_as_promised(file, promises)
            assert_nothing_is_stuck(file)
            file.database.close()
        for left in tmp_path.glob(f"{fails_at}.db*"):
            left.unlink()


def snapshot(file: ClientFile) -> tuple[object, ...]:
    return (file.outbox.entries(limit=100), file.outbox.held(), states_by_rows(file.database), facts(file.journal))


@clause("3.2", "1.4")
def test_a_full_disk_refuses_clearly_loses_nothing_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    file = open_client_file(tmp_path / "client.db")
    accept(file.outbox, entry(1))
    accept(file.outbox, entry(2, lane="relay-2"))
    file.outbox.lease_next(owner="me", now_ms=NOW_MS)
    before = snapshot(file)
    wal_bytes = (tmp_path / "client.db-wal").stat().st_size
    with no_file_longer_than(wal_bytes):
        for refused in (
            lambda: accept(file.outbox, entry(3, payload=bytes(200_000))),
            lambda: file.outbox.apply(message(1), TransmitSucceeded(), now_ms=NOW_MS),
            lambda: file.outbox.lease_next(owner="me", now_ms=NOW_MS),
            lambda: file.outbox.sweep(now_ms=NOW_MS + 2 * DAY_MS),
        ):
            with pytest.raises(StoreUnusable, match=r"client\.db: the disk is full or failing .* free space"):
                refused()
    assert snapshot(file) == before
    assert_books_balance(file)
    accept(file.outbox, entry(3, payload=bytes(200_000)))
    file.outbox.apply(message(1), TransmitSucceeded(), now_ms=NOW_MS)
    assert file.outbox.counts() == {State.SENT: 1, State.PENDING: 2}
    assert_books_balance(file)
    file.database.close()


@clause("3.2", "1.4")
def test_a_locked_database_refuses_clearly_and_loses_nothing(tmp_path: Path) -> None:
    file = open_client_file(tmp_path / "client.db")
    file.database.run("PRAGMA busy_timeout = 20")
    accept(file.outbox, entry(1))
    before = snapshot(file)
    holder = open_client_file(tmp_path / "client.db")
    with holder.database.transaction():
        for refused in (
            lambda: accept(file.outbox, entry(2)),
            lambda: file.outbox.lease_next(owner="me", now_ms=NOW_MS),
            lambda: file.outbox.apply(message(1), ReceiptAcked(), now_ms=NOW_MS),
            lambda: file.outbox.run_maintenance(now_ms=NOW_MS),
        ):
            with pytest.raises(
                StoreUnusable, match=r"client\.db is still locked by another process; nothing was changed"
            ):
                refused()
        assert snapshot(file) == before  # reading goes on
    accept(file.outbox, entry(2))
    assert file.outbox.counts() == {State.PENDING: 2}
    assert_books_balance(file)
    holder.database.close()
    file.database.close()


def test_without_syncs_the_simulated_disk_does_lose_what_was_promised(tmp_path: Path) -> None:
    """Or the test above would show nothing."""
    lost, whole = 0, operations_of_a_whole_life(tmp_path)
    for fails_at in range(whole // 2, whole, 5):  # the first half creates the tables
        path = tmp_path / f"{fails_at}.db"
        disk = CrashingDisk(fails_at=fails_at, seed=fails_at)
        promises = live_until_the_power_fails(path, disk, synchronous="OFF")
        with CrashingDisk().plugged_in():
            try:
                file = open_client_file(path)
            except StoreUnusable:  # the file is damaged
                lost += 1
                continue
            lost += not set(promises.accepted) <= states_by_journal(file.journal).keys()
            file.database.close()
    assert lost > 0
