"""core/inbox: the verdict on an arrival, and the order in which the application sees messages.

The order is that of SPEC 9.4, which is not claimed here: its session reset comes with the ratchet.
"""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clauses import clause
from restante.core.inbox import MAX_GAP, SessionOrder, place, verdict_after_opening, verdict_before_opening
from restante.model.codes import Code
from restante.model.errors import RemoteProtocolError
from restante.model.ids import PayloadHash
from restante.model.states import Verdict
from restante.testing.seeded import SeededEntropy

ONE = PayloadHash(b"\x01" * 32)
OTHER = PayloadHash(b"\x02" * 32)
MIDWAY = SessionOrder(expected=5, waiting=frozenset({7, 9}))


def take_in_all(arrivals: list[int]) -> tuple[list[int], list[Verdict], SessionOrder]:
    """Every arrival through the two questions of SPEC 9.1 and 9.4, in this order."""
    order = SessionOrder()
    released: list[int] = []
    verdicts = []
    for sequence in arrivals:
        verdict = verdict_after_opening(order, sequence)
        verdicts.append(verdict)
        if verdict is Verdict.NEW:
            placement = place(order, sequence)
            order = placement.order
            released.extend(placement.released)
        assert min(order.waiting, default=order.expected + 1) > order.expected
        assert len(order.waiting) <= 1_000
    return released, verdicts, order


@st.composite
def shuffled_with_duplicates(draw: st.DrawFn) -> tuple[int, list[int]]:
    count = draw(st.integers(1, 60))
    once = draw(st.permutations(range(count)))
    again = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count)), max_size=30))
    arrivals = list(once)
    for sequence, at in again:
        arrivals.insert(at, sequence)
    return count, arrivals


@clause("9.1")
@pytest.mark.parametrize(
    ("known", "arrived", "expected"),
    [
        (None, ONE, None),
        (ONE, ONE, Verdict.DUPLICATE),
        (ONE, OTHER, Verdict.COLLISION),
    ],
    ids=["never seen: open it", "seen, same bytes", "seen, other bytes"],
)
def test_the_verdict_before_opening(known: PayloadHash | None, arrived: PayloadHash, expected: Verdict | None) -> None:
    assert verdict_before_opening(known=known, arrived=arrived) is expected


@clause("9.1")
@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        (0, Verdict.REPLAY),
        (4, Verdict.REPLAY),
        (5, Verdict.NEW),
        (6, Verdict.NEW),
        (7, Verdict.REPLAY),
        (8, Verdict.NEW),
        (9, Verdict.REPLAY),
        (10, Verdict.NEW),
    ],
)
def test_the_verdict_after_opening_where_5_is_next_and_7_and_9_wait(sequence: int, expected: Verdict) -> None:
    assert verdict_after_opening(MIDWAY, sequence) is expected


@pytest.mark.parametrize(
    ("sequence", "released", "expected", "waiting"),
    [
        (5, (5,), 6, {7, 9}),
        (6, (), 5, {6, 7, 9}),
        (8, (), 5, {7, 8, 9}),
        (1_005, (), 5, {7, 9, 1_005}),
    ],
    ids=["next: handed on", "ahead: kept", "between: kept", "at the limit: kept"],
)
def test_where_an_arrival_leaves_its_session(
    sequence: int, released: tuple[int, ...], expected: int, waiting: set[int]
) -> None:
    placement = place(MIDWAY, sequence)
    assert placement.released == released
    assert placement.order == SessionOrder(expected=expected, waiting=frozenset(waiting))


def test_filling_the_gap_hands_on_everything_it_held_up() -> None:
    placement = place(SessionOrder(expected=5, waiting=frozenset({6, 7, 9})), 5)
    assert placement.released == (5, 6, 7)
    assert placement.order == SessionOrder(expected=8, waiting=frozenset({9}))


@pytest.mark.parametrize("expected", [0, 1, 5_000])
def test_a_gap_of_1000_is_waited_for_and_one_of_1001_is_refused(expected: int) -> None:
    order = SessionOrder(expected=expected)
    assert place(order, expected + 1_000).order.waiting == {expected + 1_000}
    with pytest.raises(RemoteProtocolError, match="more than 1000 ahead") as refused:
        place(order, expected + 1_001)
    assert refused.value.code is Code.SESSION_INVALID
    assert MAX_GAP == 1_000


def test_a_full_buffer_runs_off_in_order_when_the_first_one_comes() -> None:
    released, verdicts, order = take_in_all([*range(1_000, 0, -1), 0])
    assert released == list(range(1_001))
    assert set(verdicts) == {Verdict.NEW}
    assert order == SessionOrder(expected=1_001)


@clause("1.2")
@given(shuffled_with_duplicates())
def test_any_order_with_duplicates_is_handed_on_in_sequence_each_once(case: tuple[int, list[int]]) -> None:
    count, arrivals = case
    released, verdicts, order = take_in_all(arrivals)
    assert released == list(range(count))
    assert verdicts.count(Verdict.NEW) == count
    assert order == SessionOrder(expected=count)


@clause("1.2")
@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 1_000))
def test_a_long_session_in_disorder_up_to_the_gap_limit_is_handed_on_in_sequence(seed: int, window: int) -> None:
    chance = SeededEntropy(seed)
    count = 1_500
    # Each number is late by less than the window, so none comes more than `window` ahead of the next expected one.
    arrivals = sorted(range(count), key=lambda sequence: sequence + window * (chance.dice() + 1) / 2)
    arrivals += arrivals[::30]
    released, _, _ = take_in_all(arrivals)
    assert released == list(range(count))


@given(st.permutations(range(30)), st.integers(0, 29))
def test_nothing_behind_a_missing_message_is_handed_on(arrivals: list[int], missing: int) -> None:
    released, _, order = take_in_all([sequence for sequence in arrivals if sequence != missing])
    assert released == list(range(missing))
    assert order == SessionOrder(expected=missing, waiting=frozenset(range(missing + 1, 30)))


@given(st.permutations(range(40)))
def test_what_is_handed_on_never_goes_back(arrivals: list[int]) -> None:
    released, _, _ = take_in_all(arrivals)
    assert all(later == earlier + 1 for earlier, later in pairwise(released))
