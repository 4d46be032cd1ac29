"""policy/retry: the two schedules."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import LocalProtocolError, OutOfRange
from restante.policy.retry import (
    ChannelSchedule,
    RetrySchedule,
    Schedule,
    delay_ms,
    longest_delay_ms,
    next_attempt_at,
)
from support.spec.clauses import clause

NOW_MS = 1_700_000_000_000

retry_schedules = st.builds(
    RetrySchedule,
    base_ms=st.integers(100, 10_000),
    max_delay_ms=st.integers(60_000, 86_400_000),
    jitter=st.floats(0, 0.5),
    max_attempts=st.integers(5, 50),
)
channel_schedules = st.builds(ChannelSchedule, max_attempts=st.integers(1, 50))
dice = st.floats(-1, 1)


@clause("4.1")
def test_the_fifteen_default_delays_double_to_512_seconds_and_then_wait_an_hour() -> None:
    seconds = [delay_ms(RetrySchedule(), attempt) / 1_000 for attempt in range(1, 16)]
    assert seconds == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 3600, 3600, 3600, 3600, 3600]


@clause("4.2")
def test_the_channel_delays_are_5_s_25_s_2_min_and_then_10_min() -> None:
    seconds = [delay_ms(ChannelSchedule(), attempt) / 1_000 for attempt in range(1, 8)]
    assert seconds == [5, 25, 120, 600, 600, 600, 600]


@clause("4.1")
@pytest.mark.parametrize(
    ("attempts", "earliest_ms", "latest_ms"),
    [(1, 800, 1_200), (5, 12_800, 19_200), (10, 409_600, 614_400), (11, 2_880_000, 4_320_000)],
)
def test_the_default_jitter_moves_a_delay_by_a_fifth_at_most(attempts: int, earliest_ms: int, latest_ms: int) -> None:
    schedule = RetrySchedule()
    assert next_attempt_at(schedule, attempts=attempts, now_ms=NOW_MS, dice=-1) == NOW_MS + earliest_ms
    assert next_attempt_at(schedule, attempts=attempts, now_ms=NOW_MS, dice=1) == NOW_MS + latest_ms


@clause("4.1", "4.2")
@pytest.mark.parametrize(("schedule", "last"), [(RetrySchedule(), 15), (ChannelSchedule(), 5)])
def test_the_last_attempt_is_followed_by_no_other(schedule: Schedule, last: int) -> None:
    assert next_attempt_at(schedule, attempts=last - 1, now_ms=NOW_MS, dice=0) is not None
    assert next_attempt_at(schedule, attempts=last, now_ms=NOW_MS, dice=0) is None
    assert next_attempt_at(schedule, attempts=last + 1, now_ms=NOW_MS, dice=0) is None


@clause("4.1")
@pytest.mark.parametrize(
    ("key", "low", "high", "below", "above"),
    [
        ("base_ms", 100, 10_000, 99, 10_001),
        ("max_delay_ms", 60_000, 86_400_000, 59_999, 86_400_001),
        ("jitter", 0.0, 0.5, -0.001, 0.501),
        ("max_attempts", 5, 50, 4, 51),
    ],
)
def test_a_retry_setting_outside_its_range_is_refused_with_key_and_range(
    key: str, low: float, high: float, below: float, above: float
) -> None:
    make: Any = RetrySchedule  # the key is a variable here, which no type can follow
    for inside in (low, high):
        assert getattr(make(**{key: inside}), key) == inside
    for outside in (below, above, math.nan):
        with pytest.raises(OutOfRange, match=rf"^retry\.{key} = {outside} is outside {low}\.\.{high}"):
            make(**{key: outside})


@clause("4.2")
@pytest.mark.parametrize("outside", [0, 51])
def test_a_channel_may_try_once_to_fifty_times(outside: int) -> None:
    assert ChannelSchedule(max_attempts=1).max_attempts == 1
    assert ChannelSchedule(max_attempts=50).max_attempts == 50
    with pytest.raises(OutOfRange, match=r"^channel_retry\.max_attempts = \d+ is outside 1\.\.50 attempts"):
        ChannelSchedule(max_attempts=outside)


@clause("4.1", "4.2")
@given(schedule=retry_schedules | channel_schedules, attempt=st.integers(1, 60))
def test_delays_never_shrink_and_never_pass_the_cap(schedule: Schedule, attempt: int) -> None:
    assert 0 < delay_ms(schedule, attempt) <= delay_ms(schedule, attempt + 1) <= longest_delay_ms(schedule)


@clause("4.1")
@given(schedule=retry_schedules, attempt=st.integers(11, 60))
def test_from_the_eleventh_attempt_on_the_wait_is_the_longest_one(schedule: RetrySchedule, attempt: int) -> None:
    assert delay_ms(schedule, attempt) == schedule.max_delay_ms


@clause("4.1")
@given(schedule=retry_schedules, attempts=st.integers(1, 4), drawn=dice)
def test_jitter_stays_within_its_share_of_the_delay(schedule: RetrySchedule, attempts: int, drawn: float) -> None:
    at_ms = next_attempt_at(schedule, attempts=attempts, now_ms=NOW_MS, dice=drawn)
    assert at_ms is not None
    delay = delay_ms(schedule, attempts)
    assert abs(at_ms - NOW_MS - delay) <= delay * schedule.jitter + 0.5  # rounded to a whole millisecond
    assert at_ms > NOW_MS


@clause("4.1")
def test_the_cap_is_applied_before_the_jitter() -> None:
    schedule = RetrySchedule(base_ms=10_000, max_delay_ms=60_000)
    assert delay_ms(schedule, 4) == 60_000
    assert next_attempt_at(schedule, attempts=4, now_ms=0, dice=1) == 72_000


@clause("4.2")
@given(schedule=channel_schedules, drawn=dice)
def test_channels_have_no_jitter(schedule: ChannelSchedule, drawn: float) -> None:
    expected = None if schedule.max_attempts == 1 else NOW_MS + 5_000
    assert next_attempt_at(schedule, attempts=1, now_ms=NOW_MS, dice=drawn) == expected


@pytest.mark.parametrize("drawn", [-1.01, 1.01, math.nan])
def test_dice_outside_their_range_are_refused(drawn: float) -> None:
    with pytest.raises(OutOfRange, match=r"^dice = .* is outside -1\.\.1"):
        next_attempt_at(RetrySchedule(), attempts=1, now_ms=NOW_MS, dice=drawn)


def test_there_is_no_delay_before_the_first_failed_try() -> None:
    with pytest.raises(LocalProtocolError, match="counted from 1, not 0"):
        delay_ms(RetrySchedule(), 0)
