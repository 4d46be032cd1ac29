"""The outbox on disk: which entry leaves next, for how long it is leased, what a sweep ends, and how much fits."""

from pathlib import Path

import pytest

from restante.core.outbox_events import TimePassed, TransmitFailed, TransmitSucceeded
from restante.model.errors import OutboxFull
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import Lease
from restante.model.states import Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from support.fleet.journal_files import message
from support.outbox.entries import DAY_MS, accept, entry
from support.spec.clauses import clause
from support.sqlite.files import (
    DEFAULTS,
    NOW_MS,
    ClientFile,
    assert_books_balance,
    chosen,
    facts,
    history,
    open_client_file,
    place,
    states_by_rows,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@clause("3.5")
def test_a_claim_holds_for_its_lease_and_not_a_millisecond_longer(file: ClientFile) -> None:
    accept(file.outbox, entry(1))
    leased = file.outbox.lease_next(owner="dead soon", now_ms=NOW_MS)
    assert leased is not None
    assert (leased.state, leased.attempts) == (State.SENDING, 1)
    assert leased.lease == Lease(owner="dead soon", until_ms=NOW_MS + MINUTE_MS)
    file.outbox.sweep(now_ms=NOW_MS + MINUTE_MS - 1)
    assert chosen(file, now_ms=NOW_MS + MINUTE_MS - 1) is None
    file.outbox.sweep(now_ms=NOW_MS + MINUTE_MS)
    assert chosen(file, now_ms=NOW_MS + MINUTE_MS) == message(1)
    assert history(file, 1) == [
        JournalKind.ACCEPTED,
        JournalKind.ATTEMPTED,
        JournalKind.RETRIED,
        JournalKind.ATTEMPTED,
    ]
    assert_books_balance(file)


@clause("3.5", "3.11")
def test_a_claim_outlives_its_process_on_disk_and_then_lapses(tmp_path: Path) -> None:
    file = open_client_file(tmp_path / "client.db")
    accept(file.outbox, entry(1))
    file.outbox.lease_next(owner="the first process", now_ms=NOW_MS)
    file.database.close()
    file = open_client_file(tmp_path / "client.db")
    file.outbox.sweep(now_ms=NOW_MS + MINUTE_MS)
    assert file.outbox.counts() == {State.PENDING: 1}
    assert_books_balance(file)
    file.database.close()


@clause("3.4")
def test_a_lane_waits_behind_its_first_unsent_entry_whatever_the_priority(file: ClientFile) -> None:
    accept(file.outbox, entry(1, route=Route.UPSTREAM))
    accept(file.outbox, entry(2, route=Route.UPSTREAM, priority=Priority.HIGH))
    assert chosen(file) == message(1)
    assert chosen(file) is None  # being sent
    failed = TransmitFailed(owner="me", failure=Failure.RATE_LIMITED, retry_after_ms=MINUTE_MS)
    file.outbox.apply(message(1), failed, now_ms=NOW_MS)
    assert chosen(file, now_ms=NOW_MS + MINUTE_MS - 1) is None  # waiting for its next try
    assert chosen(file, now_ms=NOW_MS + MINUTE_MS) == message(1)
    file.outbox.apply(message(1), TransmitSucceeded(), now_ms=NOW_MS + MINUTE_MS)
    assert chosen(file, now_ms=NOW_MS + MINUTE_MS) == message(2)


@clause("3.4")
def test_a_lane_leaves_in_the_order_it_was_filled_even_if_the_clock_stepped_back(file: ClientFile) -> None:
    for number in range(4):
        accept(file.outbox, entry(number, created_at_ms=NOW_MS - number))
    order = []
    while (message_id := chosen(file)) is not None:
        order.append(message_id)
        file.outbox.apply(message_id, TransmitSucceeded(), now_ms=NOW_MS)
    assert order == [message(number) for number in range(4)]


@clause("3.4")
@pytest.mark.parametrize("route", [Route.MESH, Route.RELAY])
def test_a_pipelined_lane_leases_a_run_and_a_refused_entry_leaves_first_after_its_wait(
    file: ClientFile, route: Route
) -> None:
    for number in range(5):
        accept(file.outbox, entry(number, route=route))
    leased = file.outbox.lease(owner="me", routes=tuple(Route), limit=3, now_ms=NOW_MS)
    assert [one.message_id for one in leased] == [message(number) for number in range(3)]
    refused = TransmitFailed(owner="me", failure=Failure.STORAGE_REFUSED)
    file.outbox.apply(message(1), refused, now_ms=NOW_MS)
    assert chosen(file) is None, "its wait holds the lane"
    assert file.outbox.counts() == {State.SENDING: 2, State.PENDING: 3}, "and calls nothing back"
    leased = file.outbox.lease(owner="me", routes=tuple(Route), limit=9, now_ms=NOW_MS + 1_000)
    assert [one.message_id for one in leased] == [message(number) for number in (1, 3, 4)]


@clause("3.4")
def test_a_wait_ends_when_anything_to_that_recipient_is_stored(file: ClientFile) -> None:
    accept(file.outbox, entry(1, lane="bob"))
    accept(file.outbox, entry(2, lane="control:bob", kind=Kind.CONTROL))
    accept(file.outbox, entry(3, lane="carol"))
    file.outbox.lease(owner="me", routes=tuple(Route), limit=3, now_ms=NOW_MS)
    for number in (1, 3):
        limited = TransmitFailed(owner="me", failure=Failure.RATE_LIMITED, retry_after_ms=MINUTE_MS)
        file.outbox.apply(message(number), limited, now_ms=NOW_MS)
    assert chosen(file) is None
    file.outbox.apply(message(2), TransmitSucceeded(), now_ms=NOW_MS)
    assert chosen(file) == message(1)
    assert chosen(file) is None, "carol's wait goes on"


@clause("3.3", "3.4")
@pytest.mark.parametrize("failure", [Failure.STORAGE_REFUSED, Failure.CONNECTION_REFUSED])
def test_a_full_mailbox_or_a_dead_contact_delays_nobody_elses_mail_at_the_same_relay(
    file: ClientFile, failure: Failure
) -> None:
    for number, lane in enumerate(["full", "full", "carol", "dave"]):
        accept(file.outbox, entry(number, route=Route.RELAY, lane=lane))
    file.outbox.lease(owner="me", routes=tuple(Route), limit=1, now_ms=NOW_MS)
    file.outbox.apply(message(0), TransmitFailed(owner="me", failure=failure), now_ms=NOW_MS)
    leased = file.outbox.lease(owner="me", routes=tuple(Route), limit=9, now_ms=NOW_MS)
    assert [one.message_id for one in leased] == [message(2), message(3)]


@clause("3.4")
def test_no_more_than_256_places_are_open_behind_the_oldest_unsent_entry(file: ClientFile) -> None:
    with file.database.transaction():
        for number in range(300):
            accept(file.outbox, entry(number, payload=b"x"))
    leased = file.outbox.lease(owner="me", routes=tuple(Route), limit=1_000, now_ms=NOW_MS)
    assert len(leased) == 256
    for number in range(1, 256):
        file.outbox.apply(message(number), TransmitSucceeded(), now_ms=NOW_MS)
    assert chosen(file) is None
    file.outbox.apply(message(0), TransmitSucceeded(), now_ms=NOW_MS)
    assert len(file.outbox.lease(owner="me", routes=tuple(Route), limit=1_000, now_ms=NOW_MS)) == 44


@clause("3.5")
def test_a_wait_and_a_lease_from_a_clock_that_was_a_year_ahead_count_as_over(file: ClientFile) -> None:
    year_ms = 365 * DAY_MS
    for number in (1, 2):
        accept(file.outbox, entry(number, lane=str(number), expires_at_ms=NOW_MS + 3 * year_ms))
    file.outbox.lease(owner="me", routes=tuple(Route), limit=2, now_ms=NOW_MS + year_ms)
    file.outbox.apply(message(1), TransmitFailed(owner="me", failure=Failure.NETWORK_TIMEOUT), now_ms=NOW_MS + year_ms)
    leased = file.outbox.lease(owner="me", routes=tuple(Route), limit=2, now_ms=NOW_MS)
    assert {one.message_id for one in leased} == {message(1), message(2)}


@clause("3.14", "10.4")
def test_a_stored_message_without_receipt_is_stored_again_after_a_day(file: ClientFile) -> None:
    accept(file.outbox, entry(1, expires_at_ms=NOW_MS + 9 * DAY_MS))
    assert chosen(file) == message(1)
    file.outbox.apply(message(1), TransmitSucceeded(), now_ms=NOW_MS)
    assert chosen(file, now_ms=NOW_MS + DAY_MS - 1) is None
    assert chosen(file, now_ms=NOW_MS + DAY_MS) == message(1)


@clause("3.3")
def test_a_waiting_entry_does_not_hold_up_another_lane(file: ClientFile) -> None:
    accept(file.outbox, entry(1, next_attempt_at_ms=NOW_MS + 1))
    accept(file.outbox, entry(2, lane="relay-2"))
    assert chosen(file) == message(2)


@clause("3.3")
def test_among_lanes_priority_goes_first_then_age_then_insertion(file: ClientFile) -> None:
    ages = [(Priority.LOW, 9), (Priority.NORMAL, 1), (Priority.NORMAL, 2), (Priority.NORMAL, 2), (Priority.HIGH, 0)]
    for number, (priority, age_ms) in enumerate(ages):
        accept(file.outbox, entry(number, lane=str(number), priority=priority, created_at_ms=NOW_MS - age_ms))
    assert [chosen(file) for _ in range(6)] == [*(message(number) for number in (4, 2, 3, 1, 0)), None]


@clause("3.3")
def test_an_expired_head_is_ended_and_holds_up_nobody(file: ClientFile) -> None:
    """Not even while it waits for a next try that would come after its end."""
    accept(file.outbox, entry(1, expires_at_ms=NOW_MS + 5, next_attempt_at_ms=NOW_MS))
    accept(file.outbox, entry(2, expires_at_ms=NOW_MS + 5, next_attempt_at_ms=NOW_MS + 9))
    accept(file.outbox, entry(3))
    assert chosen(file, now_ms=NOW_MS + 5) == message(3)
    assert history(file, 1) == [JournalKind.ACCEPTED, JournalKind.EXPIRED]
    assert_books_balance(file)


@clause("3.9")
def test_upstream_traffic_older_than_seven_days_is_pruned_sent_or_not(file: ClientFile) -> None:
    week_ms = 7 * DAY_MS
    month = {"route": Route.UPSTREAM, "kind": Kind.DRAWING, "ttl_s": 30 * 86_400, "expires_at_ms": NOW_MS + 30 * DAY_MS}
    place(
        file,
        entry(1, state=State.SENT, times_stored=1, **month),
        entry(2, times_stored=1, **month),
        entry(3, state=State.SENT, times_stored=1, **(month | {"route": Route.RELAY})),
        entry(4, times_stored=1, queued_at_ms=NOW_MS + 1, **month),  # recovered: queued again
    )
    file.outbox.sweep(now_ms=NOW_MS + week_ms - 1)
    assert file.outbox.counts() == {State.SENT: 2, State.PENDING: 2}
    file.outbox.sweep(now_ms=NOW_MS + week_ms)
    assert history(file, 1)[-1] is history(file, 2)[-1] is JournalKind.EXPIRED
    assert [fact.code for fact in facts(file.journal)][-2:] == ["pruned", "pruned"]
    assert file.outbox.counts() == {State.SENT: 1, State.PENDING: 1}


@clause("2.2")
@pytest.mark.parametrize(("priority", "hours"), [(Priority.HIGH, 1), (Priority.NORMAL, 24), (Priority.LOW, 72)])
def test_an_entry_that_waited_too_long_on_a_connected_lane_becomes_a_dead_letter(
    file: ClientFile, priority: Priority, hours: int
) -> None:
    forever_ms = NOW_MS + 90 * DAY_MS
    accept(file.outbox, entry(1, priority=priority, expires_at_ms=forever_ms))
    accept(file.outbox, entry(2, priority=priority, expires_at_ms=forever_ms, lane="offline"))
    accept(file.outbox, entry(3, kind=Kind.CONTROL, priority=priority, expires_at_ms=forever_ms))
    step_ms = DEFAULTS.outbox.sweep_interval_ms
    for number in range(1, hours * HOUR_MS // step_ms):
        pass_connected_time(file, NOW_MS + number * step_ms)
    assert State.DEAD not in states_by_rows(file.database).values()
    pass_connected_time(file, NOW_MS + hours * HOUR_MS)
    assert states_by_rows(file.database) == {
        message(1): State.DEAD,
        message(2): State.PENDING,
        message(3): State.PENDING,
    }
    assert file.database.run("SELECT reason, category FROM dead_letter") == [("queue_time_exceeded", "retriable")]
    assert_books_balance(file)


@clause("2.2")
def test_time_that_nobody_looked_at_counts_for_two_sweeps_at_most(file: ClientFile) -> None:
    accept(file.outbox, entry(1, priority=Priority.HIGH, expires_at_ms=NOW_MS + 900 * DAY_MS))
    pass_connected_time(file, NOW_MS + 400 * DAY_MS)
    assert states_by_rows(file.database) == {message(1): State.PENDING}


def pass_connected_time(file: ClientFile, now_ms: int) -> None:
    file.outbox.pass_connected_time(lambda _route, lane: lane != "offline", now_ms=now_ms)


@clause("5.2")
def test_expiry_deletes_the_payload_and_leaves_a_tombstone(file: ClientFile) -> None:
    place(file, entry(1, times_stored=1))
    file.outbox.sweep(now_ms=NOW_MS + DAY_MS)
    tombstones = file.database.run("SELECT message_id, reason, code, body_id FROM dead_letter")
    assert tombstones == [(message(1), "expired", "E010", None)]
    assert file.database.run("SELECT count(*) FROM message_body") == [(0,)]
    letter = file.outbox.dead_letters.load(message(1))
    assert letter is not None
    assert file.outbox.dead_letters.payload(letter) is None


def test_the_next_wake_is_the_first_time_a_lane_may_move(file: ClientFile) -> None:
    def next_wake_ms() -> int | None:
        return file.outbox.next_wake_ms(now_ms=NOW_MS)

    assert next_wake_ms() is None
    accept(file.outbox, entry(1, next_attempt_at_ms=NOW_MS + 70_000))
    accept(file.outbox, entry(2, next_attempt_at_ms=NOW_MS))  # behind the first, whose wait counts
    assert next_wake_ms() == NOW_MS + 70_000
    accept(file.outbox, entry(3, lane="relay-2"))
    assert next_wake_ms() == NOW_MS + 70_000, "what can go at once waits for nothing"
    assert file.outbox.lanes.is_due(now_ms=NOW_MS)
    assert chosen(file) == message(3)
    assert not file.outbox.lanes.is_due(now_ms=NOW_MS)
    assert next_wake_ms() == NOW_MS + MINUTE_MS, "when its lease may expire"


@clause("3.3")
def test_more_entries_than_one_page_of_a_sweep_expire_before_anything_is_leased(file: ClientFile) -> None:
    with file.database.transaction():
        for number in range(1_001):
            accept(file.outbox, entry(number, route=Route.MESH, expires_at_ms=NOW_MS + 5))
    accept(file.outbox, entry(2_000, route=Route.MESH, priority=Priority.LOW))
    assert chosen(file, now_ms=NOW_MS + 5) == message(2_000)
    assert file.outbox.counts() == {State.SENDING: 1}


@clause("3.3")
def test_a_clock_that_stepped_back_makes_entries_wait_and_does_not_break_the_lease(file: ClientFile) -> None:
    """Two processes need no clock that steps: one may have looked at it before the other and come second."""
    accept(file.outbox, entry(1))
    accept(file.outbox, entry(2, lane="relay-2", next_attempt_at_ms=NOW_MS - 5))
    assert chosen(file, now_ms=NOW_MS - 2) == message(2)
    assert chosen(file, now_ms=NOW_MS - 2) is None
    assert file.outbox.next_wake_ms(now_ms=NOW_MS - 2) == NOW_MS
    assert chosen(file, now_ms=NOW_MS) == message(1)


@clause("5.3")
def test_dead_letters_come_back_after_a_day_in_the_order_of_their_lane(file: ClientFile) -> None:
    for number in (3, 1, 2):
        accept(file.outbox, entry(number, created_at_ms=NOW_MS + number, expires_at_ms=NOW_MS + 9 * DAY_MS))
    exhaust(file, 1, 2, 3)
    file.outbox.run_maintenance(now_ms=NOW_MS + DAY_MS - 1)
    assert file.outbox.counts() == {}
    file.outbox.run_maintenance(now_ms=NOW_MS + DAY_MS)
    assert [one.message_id for one in file.outbox.entries(limit=9)] == [message(number) for number in (1, 2, 3)]
    assert_books_balance(file)


@clause("5.3")
def test_dead_letters_come_back_when_mail_to_their_recipient_is_stored(file: ClientFile) -> None:
    accept(file.outbox, entry(1, lane="bob"))
    accept(file.outbox, entry(2, lane="carol"))
    exhaust(file, 1, 2)
    accept(file.outbox, entry(3, lane="bob"))
    file.outbox.apply(message(3), TransmitSucceeded(), now_ms=NOW_MS + 1)
    assert states_by_rows(file.database) == {
        message(1): State.PENDING,
        message(2): State.DEAD,
        message(3): State.SENT,
    }
    assert_books_balance(file)


@clause("5.3")
def test_dead_letters_count_against_capacity_until_they_are_discarded(file: ClientFile) -> None:
    accept(file.outbox, entry(1, payload=b"x" * 100))
    exhaust(file, 1)
    assert file.outbox.held() == (1, 100)
    file.outbox.discard(message(1), now_ms=NOW_MS)
    assert file.outbox.held() == (0, 0)


@clause("5.3", "5.4")
def test_a_retriable_dead_letter_goes_when_its_message_expires(file: ClientFile) -> None:
    accept(file.outbox, entry(1, expires_at_ms=NOW_MS + 3 * DAY_MS))
    accept(file.outbox, entry(2, lane="relay-2", expires_at_ms=NOW_MS + 9 * DAY_MS))
    exhaust(file, 1, 2)
    file.outbox.run_maintenance(now_ms=NOW_MS + 4 * DAY_MS)
    assert states_by_rows(file.database) == {message(2): State.PENDING}
    ended = file.outbox.ended.find(message(1))
    assert ended is not None
    assert ended.state is State.DEAD


def exhaust(file: ClientFile, *numbers: int) -> None:
    """Make dead letters of these that are retried."""
    for number in numbers:
        with file.database.transaction():
            row = file.outbox._cache.find(message(number))
            assert row is not None
            file.outbox._step(row, TimePassed(connected_ms=80 * HOUR_MS), NOW_MS)


@clause("3.6")
def test_a_full_lane_refuses_by_name_and_leaves_the_others_their_share(tmp_path: Path) -> None:
    limits = OutboxLimits(max_entries=100, control_reserve=10)
    file = open_client_file(tmp_path / "client.db", settings=Settings(outbox=limits))
    for number in range(80):
        accept(file.outbox, entry(number, lane="bob"))
    with pytest.raises(OutboxFull, match="lane 'bob' holds 80 messages; its limit is 80"):
        accept(file.outbox, entry(80, lane="bob"))
    for number in range(100, 120):
        accept(file.outbox, entry(number, lane="carol"))
    with pytest.raises(OutboxFull, match="the outbox holds 100 messages"):
        accept(file.outbox, entry(120, lane="carol"))
    for number in range(200, 208):
        accept(file.outbox, entry(number, lane="control:bob", kind=Kind.CONTROL))
    with pytest.raises(OutboxFull, match="lane 'control:bob' holds 8"):
        accept(file.outbox, entry(208, lane="control:bob", kind=Kind.CONTROL))
    assert sum(file.outbox.counts().values()) == 108, "nothing was evicted (SPEC 1.8)"
    file.database.close()


@clause("3.6")
def test_one_of_several_relays_takes_its_share_only(tmp_path: Path) -> None:
    limits = OutboxLimits(max_entries=100)
    file = open_client_file(tmp_path / "client.db", settings=Settings(outbox=limits))
    file.outbox.accept(entry(1, lane="dave"), relay="two", now_ms=NOW_MS)
    for number in range(100, 180):
        file.outbox.accept(entry(number, lane=f"bob{number % 4}"), relay="one", now_ms=NOW_MS)
    with pytest.raises(OutboxFull, match="relay 'one' holds 80"):
        file.outbox.accept(entry(180, lane="erin"), relay="one", now_ms=NOW_MS)
    file.outbox.accept(entry(181, lane="dave"), relay="two", now_ms=NOW_MS)
    file.database.close()
