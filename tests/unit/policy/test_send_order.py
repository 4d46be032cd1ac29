"""policy/send_order: which entries may leave, in which order, and how long they may wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import Lease, OutboxEntry
from restante.model.states import Route, State
from restante.policy.send_order import (
    MAIL_ROUTES,
    MAX_LEASE_MS,
    QUEUE_TIME_MS,
    WINDOW,
    has_exceeded_queue_time,
    is_abandoned,
    is_control_lane,
    is_due,
    lane_for,
    lanes_of_recipient,
    leasable,
    next_to_leave,
    sendable_now,
)
from support.spec.clauses import clause

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
LONGEST_MS = HOUR_MS
FIRST = OutboxEntry(
    message_id=MessageId(bytes(16)),
    route=Route.RELAY,
    lane="bob",
    kind=Kind.TEXT,
    payload=b"sealed",
    sealed_plaintext=b"",
    priority=Priority.NORMAL,
    created_at_ms=NOW_MS,
    queued_at_ms=NOW_MS,
    ttl_s=86_400,
    expires_at_ms=NOW_MS + 86_400_000,
    next_attempt_at_ms=NOW_MS,
)


def lane(count: int, *, route: Route = Route.RELAY, name: str = "bob") -> list[OutboxEntry]:
    return [FIRST._replace(route=route, lane=name, place=place, queue_number=place) for place in range(count)]


def places(entries: list[OutboxEntry]) -> list[int]:
    return [one.place for one in entries]


def run(unsent: list[OutboxEntry], *, now_ms: int = NOW_MS) -> list[int]:
    return places(leasable(unsent[0].route, unsent, now_ms=now_ms, longest_wait_ms=LONGEST_MS))


def sending(one: OutboxEntry) -> OutboxEntry:
    return one._replace(state=State.SENDING, lease=Lease(owner="me", until_ms=NOW_MS + 60_000))


def waiting(one: OutboxEntry, wait_ms: int = 1_000) -> OutboxEntry:
    return one._replace(next_attempt_at_ms=NOW_MS + wait_ms)


@clause("3.4")
@pytest.mark.parametrize("route", [Route.RELAY, Route.MESH])
def test_a_pipelined_lane_leases_a_run_of_up_to_256_in_the_order_of_acceptance(route: Route) -> None:
    assert run(lane(300, route=route)) == list(range(WINDOW)) == list(range(256))


@clause("3.4")
@pytest.mark.parametrize("route", [Route.UPSTREAM, Route.CHANNEL])
def test_other_lanes_have_one_in_flight(route: Route) -> None:
    unsent = lane(3, route=route)
    assert run(unsent) == [0]
    assert run([sending(unsent[0]), *unsent[1:]]) == []
    assert next_to_leave(route, [sending(unsent[0]), *unsent[1:]]) is None


@clause("3.4")
def test_none_is_leased_256_or_more_places_behind_the_oldest_unsent_one() -> None:
    unsent = lane(300)
    left = [sending(unsent[0]), *unsent[200:]]  # those between were stored meanwhile
    assert run(left) == list(range(200, 256))
    assert run([sending(unsent[0]), *unsent[256:]]) == []


@clause("3.4")
def test_a_refused_entry_leaves_first_when_its_wait_is_over_and_holds_the_lane_until_then() -> None:
    unsent = lane(6)
    refused = [sending(unsent[0]), waiting(unsent[1]), sending(unsent[2]), *unsent[3:]]
    assert run(refused) == []
    assert run(refused, now_ms=NOW_MS + 1_000) == [1, 3, 4, 5]
    held = next_to_leave(Route.RELAY, refused)
    assert held is not None
    assert (held.place, held.next_attempt_at_ms) == (1, NOW_MS + 1_000)


@clause("3.5")
def test_a_wait_longer_than_the_longest_allowed_counts_as_over() -> None:
    assert run([waiting(lane(1)[0], LONGEST_MS)]) == []
    assert run([waiting(lane(1)[0], LONGEST_MS + 1)]) == [0]
    assert is_due(NOW_MS, now_ms=NOW_MS, longest_wait_ms=0)


@clause("3.5")
@pytest.mark.parametrize(
    ("until_ms", "is_over"),
    [(-1, True), (0, True), (1, False), (MAX_LEASE_MS, False), (MAX_LEASE_MS + 1, True)],
)
def test_a_lease_is_over_at_its_end_or_when_no_lease_can_be_that_long(until_ms: int, is_over: bool) -> None:
    leased = FIRST._replace(state=State.SENDING, lease=Lease(owner="me", until_ms=NOW_MS + until_ms))
    assert is_abandoned(leased, NOW_MS) is is_over
    assert is_abandoned(leased._replace(lease=None), NOW_MS)
    assert not is_abandoned(FIRST, NOW_MS)


@clause("2.2")
@pytest.mark.parametrize(("priority", "hours"), [(Priority.HIGH, 1), (Priority.NORMAL, 24), (Priority.LOW, 72)])
def test_only_connected_time_counts_and_only_until_it_was_sent(priority: Priority, hours: int) -> None:
    assert QUEUE_TIME_MS[priority] == hours * HOUR_MS

    def is_over(connected_ms: int, *, kind: Kind = Kind.TEXT, was_sent: bool = False) -> bool:
        return has_exceeded_queue_time(kind=kind, priority=priority, was_sent=was_sent, connected_ms=connected_ms)

    assert not is_over(hours * HOUR_MS - 1)
    assert is_over(hours * HOUR_MS)
    assert not is_over(hours * HOUR_MS, was_sent=True)
    assert not is_over(100 * hours * HOUR_MS, kind=Kind.CONTROL), "control messages wait until they expire"


@clause("3.4")
def test_control_messages_have_a_lane_of_their_own_per_recipient() -> None:
    assert lane_for(Route.RELAY, "bob", Kind.CONTROL) == "control:bob"
    assert lane_for(Route.RELAY, "control:bob", Kind.CONTROL) == "control:bob"
    assert lane_for(Route.RELAY, "bob", Kind.TEXT) == "bob"
    assert lane_for(Route.CHANNEL, "chat", Kind.CONTROL) == "chat"
    assert is_control_lane(Route.MESH, "control:bob")
    assert not is_control_lane(Route.UPSTREAM, "control:bob")
    assert lanes_of_recipient(Route.RELAY, "control:bob") == lanes_of_recipient(Route.RELAY, "bob")
    assert lanes_of_recipient(Route.CHANNEL, "chat") == ("chat",)


def chosen(entries: list[OutboxEntry]) -> list[int]:
    free = sendable_now(
        entries, now_ms=NOW_MS, longest_wait_ms=dict.fromkeys(Route, LONGEST_MS), longest_stored_ms=29 * 24 * HOUR_MS
    )
    return [one.queue_number for one in free]


@clause("3.3")
def test_between_lanes_priority_goes_first_then_age_then_acceptance() -> None:
    def one(number: int, priority: Priority, age_ms: int) -> OutboxEntry:
        return FIRST._replace(lane=str(number), queue_number=number, priority=priority, created_at_ms=NOW_MS - age_ms)

    entries = [
        one(1, Priority.LOW, 9),
        one(2, Priority.NORMAL, 1),
        one(3, Priority.NORMAL, 2),
        one(4, Priority.NORMAL, 2),
        one(5, Priority.HIGH, 0),
    ]
    assert chosen(entries) == [5, 3, 4, 2, 1]


@clause("3.3", "3.4")
def test_priority_chooses_between_lanes_and_not_inside_one() -> None:
    north = [FIRST._replace(lane="north", queue_number=1), FIRST._replace(lane="north", queue_number=3, place=1)]
    north[1] = north[1]._replace(priority=Priority.HIGH)
    south = FIRST._replace(lane="south", queue_number=2, priority=Priority.HIGH)
    assert chosen([*north, south]) == [2, 1, 3]


@clause("10.4")
def test_a_stored_entry_without_receipt_leaves_again_whatever_its_lane_waits_for() -> None:
    again = FIRST._replace(state=State.SENT, times_stored=1, queue_number=1)
    held = waiting(FIRST)._replace(queue_number=2, place=1)
    assert chosen([again, held]) == [1]
    assert chosen([again._replace(next_attempt_at_ms=NOW_MS + 1), held]) == []


@clause("3.4")
@given(st.lists(st.tuples(st.sampled_from([State.PENDING, State.SENDING]), st.integers(-1, 1)), max_size=20))
def test_what_leaves_a_pipelined_lane_is_never_behind_a_pending_entry_that_stays(
    drawn: list[tuple[State, int]],
) -> None:
    unsent = [
        FIRST._replace(place=place, queue_number=place, state=state, next_attempt_at_ms=NOW_MS + wait)
        for place, (state, wait) in enumerate(drawn)
    ]
    left = leasable(Route.RELAY, unsent, now_ms=NOW_MS, longest_wait_ms=LONGEST_MS)
    stays = [one.place for one in unsent if one.state is State.PENDING and one not in left]
    assert all(one.place < min(stays, default=one.place + 1) for one in left)
    following = next_to_leave(Route.RELAY, unsent)
    assert (left[0] if left else None) in (None, following)
    assert Route.RELAY in MAIL_ROUTES
