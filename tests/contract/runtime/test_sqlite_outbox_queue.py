"""Which entry of the outbox goes next, for how long it is claimed, and what a sweep ends: on disk as in policy."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.outbox_events import TransmitFailed, TransmitSucceeded
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import Lease, OutboxEntry
from restante.model.states import Route, State
from restante.policy.failures import Failure
from restante.policy.pruning import Pruning, pruning
from restante.policy.send_order import has_exceeded_queue_time, is_abandoned, sendable_now
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
    accept(file.outbox, entry(1))
    accept(file.outbox, entry(2, priority=Priority.HIGH))
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


def test_on_the_mesh_a_later_entry_need_not_wait_for_an_earlier_one(file: ClientFile) -> None:
    """There the sequence numbers restore the order (policy/send_order)."""
    accept(file.outbox, entry(1, route=Route.MESH, next_attempt_at_ms=NOW_MS + 1))
    accept(file.outbox, entry(2, route=Route.MESH))
    assert chosen(file) == message(2)


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
def test_link_traffic_older_than_seven_days_is_pruned_sent_or_not(file: ClientFile) -> None:
    week_ms = 7 * DAY_MS
    month = {"kind": Kind.DRAWING, "ttl_s": 30 * 86_400, "expires_at_ms": NOW_MS + 30 * DAY_MS}
    place(
        file,
        entry(1, state=State.SENT, was_sent=True, **month),
        entry(2, was_sent=True, **month),
        entry(3, state=State.SENT, was_sent=True, **(month | {"kind": Kind.TEXT})),
        entry(4, was_sent=True, queued_at_ms=NOW_MS + 1, **month),  # recovered: queued anew
    )
    file.outbox.sweep(now_ms=NOW_MS + week_ms - 1)
    assert file.outbox.counts() == {State.SENT: 2, State.PENDING: 2}
    file.outbox.sweep(now_ms=NOW_MS + week_ms)
    assert history(file, 1)[-1] is history(file, 2)[-1] is JournalKind.EXPIRED
    assert [fact.code for fact in facts(file.journal)][-2:] == ["pruned", "pruned"]
    assert file.outbox.counts() == {State.SENT: 1, State.PENDING: 1}


@clause("2.2")
@pytest.mark.parametrize(("priority", "hours"), [(Priority.HIGH, 1), (Priority.NORMAL, 24), (Priority.LOW, 72)])
def test_an_entry_that_waited_too_long_unsent_becomes_a_dead_letter(
    file: ClientFile, priority: Priority, hours: int
) -> None:
    forever_ms = NOW_MS + 90 * DAY_MS
    accept(file.outbox, entry(1, priority=priority, expires_at_ms=forever_ms, next_attempt_at_ms=forever_ms))
    file.outbox.sweep(now_ms=NOW_MS + hours * HOUR_MS - 1)
    assert states_by_rows(file.database) == {message(1): State.PENDING}
    file.outbox.sweep(now_ms=NOW_MS + hours * HOUR_MS)
    assert file.database.run("SELECT reason, category FROM dead_letter") == [("queue_time_exceeded", "retriable")]
    assert_books_balance(file)


@clause("5.2")
def test_expiry_deletes_the_payload_and_leaves_a_tombstone(file: ClientFile) -> None:
    place(file, entry(1, was_sent=True))
    file.outbox.sweep(now_ms=NOW_MS + DAY_MS)
    tombstones = file.database.run("SELECT message_id, reason, code, body_id FROM dead_letter")
    assert tombstones == [(message(1), "expired", "E010", None)]
    assert file.database.run("SELECT count(*) FROM body") == [(0,)]
    letter = file.outbox.dead_letters.load(message(1))
    assert letter is not None
    assert file.outbox.dead_letters.payload(letter) is None


def test_the_next_wake_is_the_first_time_a_lane_may_move(file: ClientFile) -> None:
    assert file.outbox.next_wake_ms() is None
    accept(file.outbox, entry(1, next_attempt_at_ms=NOW_MS + 70_000))
    accept(file.outbox, entry(2, next_attempt_at_ms=NOW_MS))  # behind the first, whose time is what counts
    assert file.outbox.next_wake_ms() == NOW_MS  # to find out who stands first
    file.outbox.sweep(now_ms=NOW_MS)
    assert file.outbox.next_wake_ms() == NOW_MS + 70_000
    accept(file.outbox, entry(3, lane="relay-2"))
    file.outbox.sweep(now_ms=NOW_MS)
    assert file.outbox.next_wake_ms() == NOW_MS + 70_000  # what can go at once waits for nothing
    assert chosen(file) == message(3)
    assert file.outbox.next_wake_ms() == NOW_MS + MINUTE_MS  # when its claim may lapse


@clause("2.2", "3.5")
def test_what_outwaited_its_queue_time_while_it_was_claimed_is_not_leased_again(file: ClientFile) -> None:
    """The claim lapses and the wait is over at one moment: it must not be handed out as a dead letter."""
    accept(file.outbox, entry(1, priority=Priority.HIGH))
    assert chosen(file, now_ms=NOW_MS + HOUR_MS - MINUTE_MS) == message(1)
    assert chosen(file, now_ms=NOW_MS + HOUR_MS) is None
    assert states_by_rows(file.database) == {message(1): State.DEAD}
    assert history(file, 1)[-2:] == [JournalKind.RETRIED, JournalKind.DEAD_LETTERED]


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
    assert file.outbox.next_wake_ms() == NOW_MS
    assert chosen(file, now_ms=NOW_MS) == message(1)


@clause("5.3")
def test_dead_letters_come_back_by_themselves_after_a_day_in_the_order_of_their_lane(file: ClientFile) -> None:
    for number in (3, 1, 2):
        accept(file.outbox, entry(number, created_at_ms=NOW_MS + number, expires_at_ms=NOW_MS + 9 * DAY_MS))
    file.outbox.sweep(now_ms=NOW_MS + DAY_MS)
    file.outbox.tidy(now_ms=NOW_MS + 2 * DAY_MS - 1)
    assert file.outbox.counts() == {}
    file.outbox.tidy(now_ms=NOW_MS + 2 * DAY_MS)
    assert [one.message_id for one in file.outbox.entries(limit=9)] == [message(number) for number in (1, 2, 3)]
    assert_books_balance(file)


@clause("5.3", "5.4")
def test_a_message_that_expired_while_nobody_tidied_stays_a_dead_letter_and_stops_nothing(file: ClientFile) -> None:
    accept(file.outbox, entry(1, expires_at_ms=NOW_MS + 3 * DAY_MS))
    accept(file.outbox, entry(2, lane="relay-2", expires_at_ms=NOW_MS + 9 * DAY_MS))
    file.outbox.sweep(now_ms=NOW_MS + DAY_MS)
    file.outbox.tidy(now_ms=NOW_MS + 4 * DAY_MS)
    assert states_by_rows(file.database) == {message(1): State.DEAD, message(2): State.PENDING}
    assert_books_balance(file)


@st.composite
def outboxes(draw: st.DrawFn) -> list[OutboxEntry]:
    """Entries in any state of flight, crowded around one moment so that boundaries are met."""
    near = st.integers(-2, 2).map(lambda offset: NOW_MS + offset)
    entries = []
    for number in range(draw(st.integers(0, 6))):
        state = draw(st.sampled_from([State.PENDING, State.PENDING, State.SENDING, State.SENT]))
        lease = Lease(owner="another", until_ms=draw(near)) if state is State.SENDING else None
        entries.append(
            entry(
                number,
                route=draw(st.sampled_from([Route.RELAY, Route.RELAY, Route.CHANNEL, Route.MESH])),
                lane=draw(st.sampled_from(["one", "two"])),
                kind=draw(st.sampled_from([Kind.TEXT, Kind.DRAWING])),
                priority=draw(st.sampled_from(Priority)),
                created_at_ms=draw(near) - draw(st.sampled_from([0, 7 * DAY_MS])),
                queued_at_ms=draw(near) - draw(st.sampled_from([0, HOUR_MS, 24 * HOUR_MS, 72 * HOUR_MS, 7 * DAY_MS])),
                expires_at_ms=draw(near) + draw(st.sampled_from([0, DAY_MS])),
                next_attempt_at_ms=draw(near),
                state=state,
                lease=lease,
                attempts=0 if state is State.PENDING else 1,
                was_sent=state is State.SENT or draw(st.booleans()),
            )
        )
    return entries


@pytest.fixture(scope="module")
def shared_file() -> Iterator[ClientFile]:
    """One file for all examples; each is undone."""
    with tempfile.TemporaryDirectory() as directory:
        made = open_client_file(Path(directory) / "client.db")
        yield made
        made.database.close()


class Undone(Exception):
    """The end of an example."""


def swept(one: OutboxEntry) -> OutboxEntry | None:
    """The entry after a sweep at this moment, as policy has it; None when it has ended."""
    if one.state is State.SENDING and not is_abandoned(one, NOW_MS):
        return one
    if pruning(DEFAULTS.outbox, one, NOW_MS) is not Pruning.KEEP:
        return None
    if one.state is State.SENDING:
        return replace(one, state=State.PENDING, lease=None, next_attempt_at_ms=NOW_MS)
    outwaited = has_exceeded_queue_time(
        priority=one.priority, queued_at_ms=one.queued_at_ms, was_sent=one.was_sent, now_ms=NOW_MS
    )
    return None if one.state is State.PENDING and outwaited else one


def swept_to_the_end(entries: list[OutboxEntry]) -> list[OutboxEntry]:
    """What is left when no further sweep changes anything: a claim may lapse and its entry then end, all at once."""
    once = [after for one in entries if (after := swept(one)) is not None]
    return [after for one in once if (after := swept(one)) is not None]


def held(file: ClientFile, entries: list[OutboxEntry]) -> list[OutboxEntry]:
    """Those that are still in the outbox, as they are there."""
    loaded = (file.outbox.load(one.message_id) for one in entries)
    return [one for one in loaded if one is not None]


@clause("3.3", "3.4")
@given(entries=outboxes())
def test_the_entry_that_is_claimed_is_the_one_policy_puts_first(
    shared_file: ClientFile, entries: list[OutboxEntry]
) -> None:
    def check() -> None:
        place(shared_file, *entries)
        expected = sendable_now(swept_to_the_end(held(shared_file, entries)), NOW_MS)
        assert chosen(shared_file) == (expected[0].message_id if expected else None)
        raise Undone

    with pytest.raises(Undone), shared_file.database.transaction():
        check()


@clause("3.5", "3.9", "2.2")
@given(entries=outboxes())
def test_a_sweep_changes_exactly_the_entries_whose_time_has_come(
    shared_file: ClientFile, entries: list[OutboxEntry]
) -> None:
    def check() -> None:
        place(shared_file, *entries)
        expected = [after for one in held(shared_file, entries) if (after := swept(one)) is not None]
        shared_file.outbox.sweep(now_ms=NOW_MS)
        assert held(shared_file, entries) == expected
        raise Undone

    with pytest.raises(Undone), shared_file.database.transaction():
        check()
