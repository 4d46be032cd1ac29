"""policy/send_order: which entry leaves next."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import Lease, OutboxEntry
from restante.model.states import Route, State
from restante.policy.send_order import (
    choice_key,
    has_exceeded_queue_time,
    is_abandoned,
    is_ready,
    may_overtake,
    queue_deadline_ms,
    sendable_now,
)
from support.spec.clauses import clause

NOW_MS = 1_700_000_000_000
ENTRY = OutboxEntry(
    message_id=MessageId(bytes(16)),
    route=Route.MESH,
    lane="anna",
    kind=Kind.TEXT,
    payload=b"sealed",
    sealed_plaintext=b"kept",
    priority=Priority.NORMAL,
    created_at_ms=NOW_MS - 10_000,
    queued_at_ms=NOW_MS - 10_000,
    ttl_s=3_600,
    expires_at_ms=NOW_MS + 3_590_000,
    next_attempt_at_ms=NOW_MS,
    insertion=1,
)

entries = st.lists(
    st.builds(
        replace,
        st.just(ENTRY),
        route=st.sampled_from(Route),
        lane=st.sampled_from(["anna", "bert"]),
        priority=st.sampled_from(Priority),
        created_at_ms=st.integers(NOW_MS - 3, NOW_MS),
        expires_at_ms=st.integers(NOW_MS - 1, NOW_MS + 2),
        next_attempt_at_ms=st.integers(NOW_MS - 1, NOW_MS + 1),
        state=st.sampled_from([State.PENDING, State.PENDING, State.SENDING, State.SENT]),
        was_sent=st.booleans(),
        insertion=st.integers(1, 1_000),
    ),
    max_size=12,
    unique_by=lambda entry: entry.insertion,
)


@clause("2.2")
@pytest.mark.parametrize(
    ("priority", "number", "hours"), [(Priority.HIGH, 2, 1), (Priority.NORMAL, 1, 24), (Priority.LOW, 0, 72)]
)
def test_an_unsent_entry_waits_1_24_or_72_hours_by_priority(priority: Priority, number: int, hours: int) -> None:
    deadline = NOW_MS + hours * 3_600_000
    assert priority == number
    assert queue_deadline_ms(priority=priority, queued_at_ms=NOW_MS) == deadline

    def outwaited(now_ms: int, *, was_sent: bool = False) -> bool:
        return has_exceeded_queue_time(priority=priority, queued_at_ms=NOW_MS, was_sent=was_sent, now_ms=now_ms)

    assert not outwaited(deadline - 1)
    assert outwaited(deadline)
    assert not outwaited(deadline, was_sent=True)


@clause("3.3")
@pytest.mark.parametrize(
    ("next_attempt_in_ms", "expires_in_ms", "ready"),
    [(0, 1, True), (-1, 1, True), (1, 2, False), (0, 0, False), (-5, -1, False)],
)
def test_an_entry_is_ready_when_its_time_has_come_and_not_yet_gone(
    next_attempt_in_ms: int, expires_in_ms: int, ready: bool
) -> None:
    entry = replace(ENTRY, next_attempt_at_ms=NOW_MS + next_attempt_in_ms, expires_at_ms=NOW_MS + expires_in_ms)
    assert is_ready(entry, NOW_MS) is ready


@clause("3.3")
@pytest.mark.parametrize("state", [state for state in State if state not in (State.PENDING, State.SENT)])
def test_what_is_being_sent_or_has_ended_is_not_ready(state: State) -> None:
    assert not is_ready(replace(ENTRY, state=state), NOW_MS)


@clause("10.4")
def test_a_sent_entry_is_ready_when_it_is_due_to_be_stored_again_and_overtakes_nobody() -> None:
    unsent = replace(ENTRY, route=Route.RELAY, next_attempt_at_ms=NOW_MS + 1)
    sent = replace(unsent, insertion=2, state=State.SENT, was_sent=True)
    assert not is_ready(sent, NOW_MS)
    due = replace(sent, next_attempt_at_ms=NOW_MS)
    assert sendable_now([unsent, due], NOW_MS) == [due]


@clause("3.3")
def test_ready_entries_are_chosen_by_priority_then_age_then_insertion() -> None:
    low = replace(ENTRY, priority=Priority.LOW, created_at_ms=1, insertion=1)
    young = replace(ENTRY, created_at_ms=3, insertion=2)
    second = replace(ENTRY, created_at_ms=2, insertion=4)
    first = replace(ENTRY, created_at_ms=2, insertion=3)
    high = replace(ENTRY, priority=Priority.HIGH, created_at_ms=9, insertion=5)
    assert sendable_now([low, young, second, first, high], NOW_MS) == [high, first, second, young, low]


@clause("3.3")
def test_a_waiting_entry_never_blocks_a_ready_one_of_another_lane() -> None:
    waiting = replace(ENTRY, route=Route.RELAY, priority=Priority.HIGH, next_attempt_at_ms=NOW_MS + 1)
    ready = replace(ENTRY, route=Route.RELAY, lane="bert", insertion=2)
    assert sendable_now([waiting, ready], NOW_MS) == [ready]


@clause("3.4")
@pytest.mark.parametrize("route", [Route.RELAY, Route.CHANNEL])
@pytest.mark.parametrize("state", [State.PENDING, State.SENDING])
def test_no_entry_of_a_strict_lane_overtakes_an_earlier_unsent_one(route: Route, state: State) -> None:
    earlier = replace(ENTRY, route=route, state=state, priority=Priority.LOW, next_attempt_at_ms=NOW_MS + 1)
    later = replace(ENTRY, route=route, priority=Priority.HIGH, insertion=2)
    assert not may_overtake(later, earlier)
    assert may_overtake(earlier, later)
    assert sendable_now([later, earlier], NOW_MS) == []


@clause("3.4")
def test_a_new_send_to_a_connected_lane_queues_behind_the_backlog() -> None:
    backlog = [replace(ENTRY, route=Route.RELAY, insertion=number) for number in (1, 2)]
    fresh = replace(ENTRY, route=Route.RELAY, priority=Priority.HIGH, created_at_ms=NOW_MS, insertion=3)
    assert sendable_now([fresh, *backlog], NOW_MS) == [backlog[0]]


@clause("3.4")
def test_a_clock_that_stepped_back_does_not_reorder_a_lane() -> None:
    first = replace(ENTRY, route=Route.CHANNEL, created_at_ms=NOW_MS, insertion=1)
    second = replace(ENTRY, route=Route.CHANNEL, created_at_ms=NOW_MS - 60_000, insertion=2)
    assert sendable_now([second, first], NOW_MS) == [first]


@clause("3.4")
@pytest.mark.parametrize("ended", [State.SENT, State.DELIVERED, State.EXPIRED, State.EVICTED, State.DEAD])
def test_what_was_sent_or_has_ended_holds_nobody_back(ended: State) -> None:
    earlier = replace(ENTRY, route=Route.RELAY, state=ended, next_attempt_at_ms=NOW_MS + 1)
    later = replace(ENTRY, route=Route.RELAY, insertion=2)
    assert may_overtake(later, earlier)
    assert sendable_now([earlier, later], NOW_MS) == [later]


@clause("3.4")
def test_an_entry_sent_before_and_waiting_to_be_stored_again_holds_nobody_back() -> None:
    again = replace(ENTRY, route=Route.RELAY, was_sent=True, next_attempt_at_ms=NOW_MS + 1)
    later = replace(ENTRY, route=Route.RELAY, insertion=2)
    assert sendable_now([again, later], NOW_MS) == [later]


@clause("3.3")
def test_an_expired_head_neither_leaves_nor_blocks_its_lane() -> None:
    expired = replace(ENTRY, route=Route.RELAY, expires_at_ms=NOW_MS)
    later = replace(ENTRY, route=Route.RELAY, insertion=2)
    assert sendable_now([expired, later], NOW_MS) == [later]


@clause("3.4")
def test_entries_for_one_mesh_recipient_may_overtake_each_other() -> None:
    waiting = replace(ENTRY, next_attempt_at_ms=NOW_MS + 1)
    ready = replace(ENTRY, insertion=2)
    assert may_overtake(ready, waiting)
    assert sendable_now([waiting, ready], NOW_MS) == [ready]


@clause("3.4")
def test_what_expires_while_it_is_being_sent_still_holds_its_lane() -> None:
    """It may arrive yet; whoever left now could arrive before it."""
    sending = replace(ENTRY, route=Route.RELAY, state=State.SENDING, expires_at_ms=NOW_MS)
    later = replace(ENTRY, route=Route.RELAY, insertion=2)
    assert sendable_now([sending, later], NOW_MS) == []


@clause("3.4")
def test_lanes_of_one_name_on_two_routes_are_two_lanes() -> None:
    relay = replace(ENTRY, route=Route.RELAY, next_attempt_at_ms=NOW_MS + 1)
    channel = replace(ENTRY, route=Route.CHANNEL, insertion=2)
    assert sendable_now([relay, channel], NOW_MS) == [channel]


@clause("3.3", "3.4")
@given(entries=entries)
def test_the_order_is_total_and_does_not_depend_on_how_entries_are_read(
    entries: list[OutboxEntry],
) -> None:
    chosen = sendable_now(entries, NOW_MS)
    keys = [choice_key(entry) for entry in chosen]
    assert keys == sorted(set(keys))
    assert sendable_now(reversed(entries), NOW_MS) == chosen


@clause("3.3", "3.4")
@given(entries=entries)
def test_an_entry_may_leave_exactly_when_it_is_ready_and_no_living_one_is_before_it(
    entries: list[OutboxEntry],
) -> None:
    alive = [entry for entry in entries if entry.expires_at_ms > NOW_MS or entry.state is State.SENDING]
    free = [entry for entry in alive if is_ready(entry, NOW_MS) and all(may_overtake(entry, other) for other in alive)]
    assert {entry.insertion for entry in sendable_now(entries, NOW_MS)} == {entry.insertion for entry in free}


@clause("3.5")
def test_an_entry_in_sending_is_taken_up_again_once_its_lease_is_over() -> None:
    leased = replace(ENTRY, state=State.SENDING, lease=Lease(owner="drain-1", until_ms=NOW_MS))
    assert not is_abandoned(leased, NOW_MS - 1)
    assert is_abandoned(leased, NOW_MS)
    assert is_abandoned(replace(leased, lease=None), NOW_MS - 1), "a claim of nobody cannot be waited for"
    assert not is_abandoned(replace(leased, state=State.PENDING), NOW_MS)
