"""policy/capacity: what fits in the outbox."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.error_codes import Code
from restante.model.errors import OutboxFull
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.capacity import OutboxLimits, check_capacity, check_lane_capacity, eviction_key, overflow
from support.spec.clauses import clause

LIMITS = OutboxLimits()
ENTRY = OutboxEntry(
    message_id=MessageId(bytes(16)),
    route=Route.RELAY,
    lane="north",
    kind=Kind.CHAT,
    payload=b"sealed",
    sealed_plaintext=b"kept",
    priority=Priority.NORMAL,
    created_at_ms=1_000,
    queued_at_ms=1_000,
    ttl_s=604_800,
    expires_at_ms=604_801_000,
    next_attempt_at_ms=1_000,
)


def admit_one(held_entries: int, held_bytes: int, new_bytes: int) -> None:
    check_capacity(LIMITS, held_entries=held_entries, held_bytes=held_bytes, new_entries=1, new_bytes=new_bytes)


@clause("3.6")
def test_the_ten_thousandth_entry_fits_and_the_next_is_refused_with_the_limits() -> None:
    admit_one(9_999, 0, 1)
    with pytest.raises(OutboxFull, match=r"limits of 10000 entries and 50000000 bytes") as caught:
        admit_one(10_000, 0, 1)
    assert caught.value.code is Code.OUTBOX_FULL


@clause("3.6")
def test_fifty_million_bytes_fit_and_one_more_is_refused() -> None:
    admit_one(1, 49_999_000, 1_000)
    with pytest.raises(OutboxFull):
        admit_one(1, 49_999_000, 1_001)


@clause("3.6")
def test_a_send_to_several_destinations_fits_whole_or_not_at_all() -> None:
    check_capacity(LIMITS, held_entries=9_997, held_bytes=0, new_entries=3, new_bytes=3)
    with pytest.raises(OutboxFull):
        check_capacity(LIMITS, held_entries=9_998, held_bytes=0, new_entries=3, new_bytes=3)


@clause("3.6")
@pytest.mark.parametrize(("pending", "evicted"), [(0, 0), (255, 0), (256, 0), (257, 1), (300, 44)])
def test_the_257th_pending_entry_of_a_relay_lane_evicts_one(pending: int, evicted: int) -> None:
    assert overflow(LIMITS, route=Route.RELAY, pending=pending) == evicted


@clause("3.6")
@pytest.mark.parametrize("route", [Route.MESH, Route.CHANNEL])
@given(pending=st.integers(0, 10**6))
def test_other_lanes_never_evict(route: Route, pending: int) -> None:
    assert overflow(LIMITS, route=route, pending=pending) == 0


@clause("3.6")
def test_the_oldest_is_evicted_first_and_a_tie_is_broken_by_insertion() -> None:
    young = replace(ENTRY, created_at_ms=3, insertion=1)
    tied_later = replace(ENTRY, created_at_ms=2, insertion=3, priority=Priority.LOW)
    tied_first = replace(ENTRY, created_at_ms=2, insertion=2, priority=Priority.HIGH)
    assert sorted([young, tied_later, tied_first], key=eviction_key) == [tied_first, tied_later, young]


@clause("3.6", "5.4")
def test_a_recovered_letter_is_refused_where_it_would_be_the_one_to_be_evicted() -> None:
    check_lane_capacity(OutboxLimits(), route=Route.RELAY, pending=255)
    check_lane_capacity(OutboxLimits(), route=Route.MESH, pending=5_000)
    with pytest.raises(OutboxFull, match="256 messages wait in this lane already, of at most 256"):
        check_lane_capacity(OutboxLimits(), route=Route.RELAY, pending=256)
