"""policy/capacity: how much the outbox may hold."""

import pytest

from restante.model.errors import OutboxFull, OutOfRange
from restante.model.states import Route
from restante.policy.capacity import (
    Held,
    OutboxLimits,
    check_capacity,
    check_control_capacity,
    check_share,
    check_upstream_recovery,
    max_entries_of_lane,
    overflow,
)
from support.spec.clauses import clause

LIMITS = OutboxLimits()
ONE = Held(1, 1_000)


@clause("3.6")
def test_the_outbox_holds_ten_thousand_entries_and_fifty_megabytes() -> None:
    check_capacity(LIMITS, held=Held(9_999, 0), new=ONE)
    check_capacity(LIMITS, held=Held(0, 49_999_000), new=ONE)
    with pytest.raises(OutboxFull, match="holds 10000 messages; its limit is 10000"):
        check_capacity(LIMITS, held=Held(10_000, 0), new=ONE)
    with pytest.raises(OutboxFull, match="limit of 50000000"):
        check_capacity(LIMITS, held=Held(0, 49_999_001), new=ONE)


@clause("3.6")
def test_one_lane_takes_at_most_four_fifths_and_the_refusal_names_it() -> None:
    check_share(LIMITS, what="lane", name="bob", held=Held(7_999, 0), new=ONE)
    with pytest.raises(OutboxFull, match="lane 'bob' holds 8000 messages; its limit is 8000") as full:
        check_share(LIMITS, what="lane", name="bob", held=Held(8_000, 0), new=ONE)
    assert (full.value.lane, full.value.limit) == ("bob", 8_000)
    with pytest.raises(OutboxFull, match="relay 'KEY@host' holds 40000000 bytes") as full:
        check_share(LIMITS, what="relay", name="KEY@host", held=Held(0, 40_000_000), new=ONE)
    assert (full.value.lane, full.value.limit) == ("", 40_000_000)
    with pytest.raises(OutboxFull, match="holds 7990 messages; 64 more would pass its limit of 8000"):
        check_share(LIMITS, what="lane", name="bob", held=Held(7_990, 0), new=Held(64, 0))


@clause("3.6")
def test_control_messages_have_five_hundred_entries_that_mail_never_takes() -> None:
    check_control_capacity(LIMITS, lane="control:bob", held=Held(499, 0), held_in_lane=Held(0, 0), new=ONE)
    with pytest.raises(OutboxFull, match="reserve for control messages holds 500"):
        check_control_capacity(LIMITS, lane="control:bob", held=Held(500, 0), held_in_lane=Held(0, 0), new=ONE)
    with pytest.raises(OutboxFull, match="lane 'control:bob' holds 400"):
        check_control_capacity(LIMITS, lane="control:bob", held=Held(400, 0), held_in_lane=Held(400, 0), new=ONE)


@clause("3.6")
def test_the_limit_of_a_lane_is_its_share_of_the_outbox_or_the_reserve_or_the_upstream_limit() -> None:
    assert max_entries_of_lane(LIMITS, Route.RELAY, "bob") == 8_000
    assert max_entries_of_lane(LIMITS, Route.RELAY, "control:bob") == 400
    assert max_entries_of_lane(LIMITS, Route.UPSTREAM, "server") == 256


@clause("1.8", "3.6")
@pytest.mark.parametrize("route", Route)
def test_only_upstream_lanes_evict_and_only_beyond_256_pending(route: Route) -> None:
    assert overflow(LIMITS, route=route, pending=256) == 0
    assert overflow(LIMITS, route=route, pending=258) == (2 if route is Route.UPSTREAM else 0)


@clause("3.6")
def test_a_dead_letter_does_not_go_back_into_a_full_upstream_lane() -> None:
    check_upstream_recovery(LIMITS, lane="server", pending=255)
    with pytest.raises(OutboxFull, match="the dead letter stays"):
        check_upstream_recovery(LIMITS, lane="server", pending=256)


@clause("3.6")
@pytest.mark.parametrize(
    ("name", "value"),
    [("max_entries", 99), ("max_lane_share", 1.1), ("control_reserve", 9), ("drain_on_startup", 2), ("lease_ms", 0)],
)
def test_a_limit_outside_its_range_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(OutOfRange, match=rf"outbox\.{name}"):
        OutboxLimits(**{name: value})  # type: ignore[arg-type]  # names come from the table
