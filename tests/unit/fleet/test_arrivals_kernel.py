"""The kernel says of every fact what the core says, however the trace is cut, and forgets what it may forget."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from restante.fleet.kernels import arrivals
from restante.fleet.kernels.arrivals import classify_arrivals
from restante.fleet.kernels.arrivals_schema import EMPTY_STATE, SEEN, STATE, binaries, halves
from support.fleet.arrival_traces import (
    CUTS,
    DAY_MS,
    DEDUP,
    LIMITS,
    TRACES,
    Told,
    TraceFact,
    by_the_core,
    facts_table,
    kernel_facts,
    tame,
    told_by,
)
from support.spec.clauses import clause

pytestmark = pytest.mark.unit


def judged_in_parts(trace: Sequence[TraceFact], cuts: Sequence[int], backwards: bool) -> tuple[list[Told], Any]:
    """Outcomes in the order of the trace, with the state carried from part to part."""
    rows, state = kernel_facts(trace), EMPTY_STATE
    events = [row["event_id"] for row in rows]
    told: dict[bytes, Told] = {}
    for first, last in pairwise([0, *(min(cut, len(rows)) for cut in cuts), len(rows)]):
        part = rows[first:last]
        done = classify_arrivals(facts_table(reversed(part) if backwards else part), state, order=LIMITS, dedup=DEDUP)
        state = done.state()
        told.update(told_by(done.classified))
    return [told[event] for event in events], state


def lasting(state: Any) -> list[tuple[Any, ...]]:
    """The state without what was seen, of which old entries go sooner or later."""
    return sorted(tuple(row.values()) for row in state.to_pylist() if row["entry"] != SEEN)


@clause("9.1", "9.4", "9.5", "13.7")
@given(TRACES, CUTS, st.booleans())
@example([TraceFact(0, "arrived", 0, 0, 0), TraceFact(0, "arrived", 31 * DAY_MS, 1, 0)], [1], False)
@example([TraceFact(0, "arrived", 0, 2, 2), TraceFact(0, "arrived", 299_999, 1, 1)], [1], False)
@example([TraceFact(0, "arrived", 0, 2, 2), TraceFact(0, "arrived", 300_000, 1, 1)], [1], False)
@example([TraceFact(0, "arrived", 0, 1_000, 1), TraceFact(0, "arrived", 0, 1_001, 2)], [1], False)
def test_any_trace_in_any_parts_gives_the_arrivals_of_the_core(
    trace: list[TraceFact], cuts: list[int], backwards: bool
) -> None:
    told, state = judged_in_parts(trace, cuts, backwards)
    assert told == by_the_core(trace)
    assert lasting(state) == lasting(judged_in_parts(trace, [], backwards)[1])


@given(tame(), st.booleans())
def test_common_sessions_never_take_the_way_of_one_at_a_time(trace: list[TraceFact], backwards: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrivals, "ExactSession", None)
        assert judged_in_parts(trace, [], backwards)[0] == by_the_core(trace)


def test_what_was_seen_is_forgotten_after_the_window_and_a_day() -> None:
    early = [TraceFact(0, "arrived", 0, number, number) for number in range(3)]
    late = TraceFact(1, "arrived", 31 * DAY_MS, 0, 9)
    assert seen_after([*early, late._replace(after_ms=31 * DAY_MS - 1)]) == 4
    assert seen_after([*early, late]) == 1


def seen_after(trace: Sequence[TraceFact]) -> int:
    _, state = judged_in_parts(trace, [3], False)
    return sum(row["entry"] == SEEN for row in state.to_pylist())


def test_sessions_without_new_facts_stay_as_they_are() -> None:
    _, state = judged_in_parts([TraceFact(0, "arrived", 0, 5, 5)], [], False)
    after = classify_arrivals(facts_table([]), state, order=LIMITS, dedup=DEDUP).state()
    assert after.equals(state)
    assert after.schema == STATE


def test_numbers_beyond_forty_bits_keep_their_order() -> None:
    rows = kernel_facts([TraceFact(0, "arrived", 0, number, number) for number in (1, 0)])
    rows[0]["event_id"], rows[1]["event_id"] = b"12345678" + b"\xff" * 7 + b"\x01", b"12345678" + b"\xff" * 8
    judged = classify_arrivals(facts_table(rows[::-1]), EMPTY_STATE, order=LIMITS, dedup=DEDUP).classified
    assert [told.placement for told in told_by(judged).values()] == ["released", "held"]


def test_a_mark_of_another_size_is_refused() -> None:
    rows = kernel_facts([TraceFact(0, "arrived", 0, 0, 0)])
    rows[0]["payload"] = b"short"
    with pytest.raises(ValueError, match="16 bytes"):
        classify_arrivals(facts_table(rows), EMPTY_STATE, order=LIMITS, dedup=DEDUP)


@given(st.lists(st.binary(min_size=16, max_size=16)))
def test_binary_columns_come_back_as_they_were(values: list[bytes]) -> None:
    table = facts_table([{"event_id": value} for value in values])
    words = halves(table["event_id"])
    assert binaries(np.array(words)).to_pylist() == values
