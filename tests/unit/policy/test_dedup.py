"""policy/dedup: how much is remembered of arrivals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import OutOfRange
from restante.policy.dedup import DedupLimits, is_fresh, to_evict
from support.spec.clauses import clause

DAY_MS = 86_400_000
SEEN_MS = 1_700_000_000_000
LIMITS = DedupLimits()


@clause("9.2")
def test_an_arrival_is_remembered_for_thirty_days() -> None:
    assert is_fresh(LIMITS, seen_at_ms=SEEN_MS, now_ms=SEEN_MS + 30 * DAY_MS - 1)
    assert not is_fresh(LIMITS, seen_at_ms=SEEN_MS, now_ms=SEEN_MS + 30 * DAY_MS)


@clause("9.2")
def test_the_window_may_be_shortened_to_seven_days_and_no_further() -> None:
    week = DedupLimits(window_ms=7 * DAY_MS)
    assert not is_fresh(week, seen_at_ms=SEEN_MS, now_ms=SEEN_MS + 7 * DAY_MS)
    with pytest.raises(OutOfRange, match=r"^dedup\.window_ms = 604799999 is outside 604800000\.\."):
        DedupLimits(window_ms=7 * DAY_MS - 1)


@clause("9.2")
@pytest.mark.parametrize(
    ("entries", "measured_bytes", "evicted"),
    [
        (0, 0, 0),
        (100_000, 10_000_000, 0),
        (100_001, 9_000_000, 1),
        (50_000, 10_000_001, 1),
        (50_000, 20_000_000, 25_000),
        (100_010, 20_000_000, 50_005),
        (1, 10_000_001, 1),
        (0, 10_000_001, 0),
    ],
)
def test_what_passes_either_limit_is_evicted(entries: int, measured_bytes: int, evicted: int) -> None:
    assert to_evict(LIMITS, entries=entries, measured_bytes=measured_bytes) == evicted


@clause("9.2")
@given(entries=st.integers(0, 10**6), entry_bytes=st.integers(1, 2_000))
def test_entries_of_one_size_fit_both_limits_after_one_eviction(entries: int, entry_bytes: int) -> None:
    left = entries - to_evict(LIMITS, entries=entries, measured_bytes=entries * entry_bytes)
    assert 0 <= left <= 100_000
    assert left * entry_bytes <= 10_000_000
    one_more_fits = left + 1 <= 100_000 and (left + 1) * entry_bytes <= 10_000_000
    assert left == entries or not one_more_fits, "nothing is forgotten without need"
