"""core/inbox: verdicts, order and gaps as functions of what arrived when."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.core.inbox import InboxSession, Phase, SkippedRange, next_wake_ms, step
from restante.core.inbox_events import (
    Arrived,
    Discard,
    Effect,
    Hold,
    KnownInOtherSession,
    RecordGap,
    Refuse,
    Release,
    RequestRetransmit,
    TimePassed,
)
from restante.model.ids import MAX_SEQUENCE
from restante.model.states import Verdict
from restante.testing.deterministic import SeededEntropy
from support.inbox.session_states import DAY_MS, GAP_MS, LIMITS, NOW_MS, after, arrived, released, taken, verdicts
from support.spec.clauses import clause

FRESH = InboxSession()
RESEALED = KnownInOtherSession.SAME_CONTENT


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
    ("sequence", "expected"),
    [(0, "replay"), (4, "replay"), (5, "new"), (6, "new"), (7, "replay"), (8, "new"), (9, "replay"), (10, "new")],
)
def test_a_number_that_was_handed_on_or_waits_is_used(sequence: int, expected: str) -> None:
    midway, _ = arrived(FRESH, [0, 1, 2, 3, 4, 7, 9])
    _, effects = taken(midway, Arrived(sequence=sequence))
    assert verdicts(effects) == [Verdict(expected)]


@clause("9.4")
def test_filling_the_gap_hands_on_everything_it_held_up() -> None:
    midway, _ = arrived(FRESH, [1, 2, 4])
    session, effects = taken(midway, Arrived(sequence=0))
    assert released(effects) == [0, 1, 2]
    assert (session.phase, session.expected, set(session.waiting)) == (Phase.WAITING, 3, {4})


@clause("9.4")
@pytest.mark.parametrize("expected", [0, 1, 5_000, MAX_SEQUENCE - 1_001])
def test_a_message_is_unreadable_if_it_is_more_than_1000_ahead_of_the_highest_read(expected: int) -> None:
    session = InboxSession(expected=expected)
    highest = expected - 1
    held, effects = taken(session, Arrived(sequence=highest + 1_000))
    assert effects[1:] == (Hold(highest + 1_000),)
    same, effects = taken(session, Arrived(sequence=highest + 1_001))
    assert (same, effects) == (session, (Refuse(),))
    further, effects = taken(
        held, Arrived(sequence=highest + 2_000 if highest + 2_000 <= MAX_SEQUENCE else highest + 1_001)
    )
    assert Refuse() not in effects
    assert len(further.waiting) == 2


@clause("9.4")
def test_a_thousand_wait_and_one_more_skips_the_gap_at_once() -> None:
    full, effects = arrived(FRESH, range(999, 0, -1))
    full, more = arrived(full, [1_000])
    assert (len(full.waiting), released(effects + more)) == (1_000, [])
    session, skipping = taken(full, Arrived(sequence=1_001))
    assert skipping[1:4] == (Hold(1_001), RecordGap(0, 0), RequestRetransmit(0, 10))
    assert released(skipping) == list(range(1, 1_002))
    assert (session.phase, session.expected) == (Phase.FLOWING, 1_002)
    _, late = taken(session, Arrived(sequence=0))
    assert late[1:] == (Release(0, is_late=True),)


@clause("9.4")
def test_a_full_buffer_skips_only_its_lowest_gap() -> None:
    session, effects = arrived(FRESH, [sequence for sequence in range(2_004) if sequence % 2])
    assert [effect for effect in effects if isinstance(effect, RecordGap)] == [RecordGap(0, 0), RecordGap(2, 2)]
    assert len(session.waiting) == 1_000


@clause("9.4")
def test_a_full_buffer_runs_off_in_order_when_the_first_one_comes() -> None:
    session, effects = arrived(FRESH, [*range(999, 0, -1), 1_000, 0])
    assert released(effects) == list(range(1_001))
    assert session == InboxSession(expected=1_001)


@clause("9.4")
def test_a_control_message_occupies_its_number_and_releases_nothing() -> None:
    session, effects = taken(FRESH, Arrived(sequence=1, is_control=True))
    assert (verdicts(effects), set(session.placeholders)) == ([Verdict.NEW], {1})
    session, effects = taken(session, Arrived(sequence=0))
    assert [effect for effect in effects if isinstance(effect, Release | Discard)] == [Release(0), Discard(1)]
    _, effects = taken(session, Arrived(sequence=1, is_control=True))
    assert verdicts(effects) == [Verdict.REPLAY]


@clause("9.4")
@pytest.mark.parametrize("sequence", [1_000, 1_000_000, MAX_SEQUENCE])
def test_however_far_ahead_refusing_it_changes_nothing(sequence: int) -> None:
    assert taken(FRESH, Arrived(sequence=sequence)) == (FRESH, (Refuse(),))


@clause("9.5")
@pytest.mark.parametrize(("waited_ms", "is_skipped"), [(GAP_MS - 1, False), (GAP_MS, True), (GAP_MS + 1, True)])
def test_a_gap_is_skipped_at_exactly_five_minutes(waited_ms: int, is_skipped: bool) -> None:
    assert GAP_MS == 5 * 60_000
    waiting, _ = arrived(FRESH, [0, 3, 4])
    assert next_wake_ms(waiting, limits=LIMITS) == NOW_MS + GAP_MS
    _, effects = taken(waiting, TimePassed(), at_ms=NOW_MS + waited_ms)
    expected: tuple[Effect, ...] = (RecordGap(1, 2), RequestRetransmit(1, 11), Release(3), Release(4))
    assert effects == (expected if is_skipped else ())


@clause("9.5")
def test_a_gap_is_as_old_as_the_oldest_message_it_holds_up() -> None:
    session = after(FRESH, Arrived(sequence=5), at_ms=NOW_MS)
    session = after(session, Arrived(sequence=2), at_ms=NOW_MS + 1_000)
    session, effects = taken(session, TimePassed(), at_ms=NOW_MS + GAP_MS)
    assert effects == (
        RecordGap(0, 1),
        RequestRetransmit(0, 10),
        Release(2),
        # 5 has waited just as long for 3 and 4.
        RecordGap(3, 4),
        RequestRetransmit(3, 13),
        Release(5),
    )
    assert session.phase is Phase.FLOWING


@clause("9.5")
def test_a_late_original_is_handed_on_once_marked_and_out_of_order() -> None:
    session = after(after(FRESH, Arrived(sequence=3)), TimePassed(), at_ms=NOW_MS + GAP_MS)
    session, effects = taken(session, Arrived(sequence=1), at_ms=NOW_MS + GAP_MS)
    assert effects[1:] == (Release(1, is_late=True),)
    assert session.missing == (SkippedRange(0, 0, NOW_MS + GAP_MS), SkippedRange(2, 2, NOW_MS + GAP_MS))
    _, effects = taken(session, Arrived(sequence=1), at_ms=NOW_MS + GAP_MS)
    assert verdicts(effects) == [Verdict.REPLAY]


@clause("9.1")
@pytest.mark.parametrize(("later_ms", "verdict"), [(30 * DAY_MS - 1, Verdict.NEW), (30 * DAY_MS, Verdict.REPLAY)])
def test_a_skipped_message_may_come_for_thirty_days(later_ms: int, verdict: Verdict) -> None:
    session = after(after(FRESH, Arrived(sequence=1)), TimePassed(), at_ms=NOW_MS + GAP_MS)
    _, effects = taken(session, Arrived(sequence=0), at_ms=NOW_MS + GAP_MS + later_ms)
    assert verdicts(effects) == [verdict]


@clause("9.1")
def test_of_more_than_a_thousand_skipped_the_oldest_are_given_up() -> None:
    session = FRESH
    for last in (999, 1_500):  # 0..998 are skipped, then 1,000..1,499
        session = after(after(session, Arrived(sequence=last)), TimePassed(), at_ms=NOW_MS + GAP_MS)
    assert sum(gap.last + 1 - gap.first for gap in session.missing) == 1_000
    for sequence, verdict in ((498, Verdict.REPLAY), (499, Verdict.NEW), (1_499, Verdict.NEW)):
        _, effects = taken(session, Arrived(sequence=sequence), at_ms=NOW_MS + GAP_MS)
        assert verdicts(effects) == [verdict], sequence


def test_a_request_never_asks_beyond_the_last_number() -> None:
    session = after(InboxSession(expected=MAX_SEQUENCE - 3), Arrived(sequence=MAX_SEQUENCE))
    _, effects = taken(session, TimePassed(), at_ms=NOW_MS + GAP_MS)
    assert RequestRetransmit(MAX_SEQUENCE - 3, MAX_SEQUENCE) in effects


def test_a_message_sealed_again_takes_its_number_and_shows_nothing() -> None:
    session, effects = taken(FRESH, Arrived(sequence=2, elsewhere=RESEALED))
    assert verdicts(effects) == [Verdict.DUPLICATE]
    session, run_on = arrived(session, [3, 1, 0])
    assert [effect for effect in run_on if isinstance(effect, Release | Discard)] == [
        Release(0),
        Release(1),
        Discard(2),
        Release(3),
    ]
    assert session == InboxSession(expected=4)


def test_a_late_message_sealed_again_is_no_longer_missing_and_shows_nothing() -> None:
    session = after(after(FRESH, Arrived(sequence=1)), TimePassed(), at_ms=NOW_MS + GAP_MS)
    session, effects = taken(session, Arrived(sequence=0, elsewhere=RESEALED), at_ms=NOW_MS + GAP_MS)
    assert (verdicts(effects), released(effects), session.missing) == ([Verdict.DUPLICATE], [], ())


@clause("1.2")
@given(shuffled_with_duplicates())
def test_any_order_with_duplicates_is_handed_on_in_sequence_each_once(case: tuple[int, list[int]]) -> None:
    count, arrivals = case
    session, effects = arrived(FRESH, arrivals)
    assert released(effects) == list(range(count))
    assert verdicts(effects).count(Verdict.NEW) == count
    assert session == InboxSession(expected=count)


@clause("1.2")
@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 1_000))
def test_a_long_session_in_disorder_up_to_the_gap_limit_is_handed_on_in_sequence(seed: int, window: int) -> None:
    chance = SeededEntropy(seed)
    count = 1_500
    # Each number is late by less than the window, so none comes more than `window` ahead of the next expected one.
    arrivals = sorted(range(count), key=lambda sequence: sequence + window * (chance.dice() + 1) / 2)
    _, effects = arrived(FRESH, arrivals + arrivals[::30])
    assert released(effects) == list(range(count))


traces = st.lists(
    st.tuples(st.integers(0, 25), st.sampled_from([0, 1_000, 60_000, 299_999, 300_000, 700_000])), max_size=40
)


def played(trace: list[tuple[int, int]], polls: list[int]) -> tuple[InboxSession, list[Effect]]:
    """The arrivals, each so long after the one before; the host looks at the clock at `polls`, too."""
    session, now_ms = FRESH, NOW_MS
    effects: list[Effect] = []
    for sequence, pause_ms in trace:
        for poll_ms in sorted(polls):
            if now_ms < poll_ms + NOW_MS < now_ms + pause_ms:
                session, more = taken(session, TimePassed(), at_ms=poll_ms + NOW_MS)
                effects += more
        now_ms += pause_ms
        session, more = taken(session, Arrived(sequence=sequence), at_ms=now_ms)
        effects += more
    return session, effects


@clause("9.5")
@given(traces, st.lists(st.integers(0, 5_000_000), max_size=20))
def test_how_often_the_host_looks_at_the_clock_changes_nothing(trace: list[tuple[int, int]], polls: list[int]) -> None:
    assert played(trace, polls) == played(trace, [])


@clause("9.4", "9.5")
@given(traces)
def test_each_number_is_handed_on_once_and_only_late_ones_out_of_order(trace: list[tuple[int, int]]) -> None:
    session, effects = played(trace, [])
    handed_on = [effect for effect in effects if isinstance(effect, Release)]
    numbers = [effect.sequence for effect in handed_on]
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) | set(session.waiting) == {sequence for sequence, _ in trace}
    in_order = [effect.sequence for effect in handed_on if not effect.is_late]
    assert all(earlier < later for earlier, later in pairwise(in_order))
    for place, effect in enumerate(handed_on):
        if effect.is_late:
            assert any(before.sequence > effect.sequence for before in handed_on[:place])
    missing = {number for gap in session.missing for number in range(gap.first, gap.last + 1)}
    assert missing == set(range(session.expected)) - set(numbers)


@given(traces)
def test_the_phase_says_whether_something_waits(trace: list[tuple[int, int]]) -> None:
    session, _ = played(trace, [])
    assert session.phase is (Phase.WAITING if session.waiting else Phase.FLOWING)
    assert min(session.waiting, default=session.expected + 1) > session.expected
    again, effects = step(session, TimePassed(), now_ms=0, limits=LIMITS)
    assert (again, effects) == (session, ()), "a clock that goes back changes nothing"
