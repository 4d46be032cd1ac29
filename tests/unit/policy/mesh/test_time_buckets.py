"""policy/mesh/time_buckets: hours, their boundaries, and when a read counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.policy.mesh import time_buckets
from restante.policy.mesh.time_buckets import (
    BUCKET_MS,
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    PERIOD_MS,
    bucket_at,
    bucket_end_ms,
    current_buckets,
    periods_to_ask,
    periods_to_publish,
    read_can_end,
    read_can_finalize,
    record_expires_at_ms,
    takes_block,
    takes_put,
    takes_record,
)
from support.spec.clauses import clause

START_MS = 500_000 * BUCKET_MS
times = st.integers(PERIOD_MS, 10**13)


@clause("7.2", "7.10")
@pytest.mark.parametrize(
    ("into_ms", "expected"),
    [
        (0, (499_999, 500_000)),
        (10 * MINUTE_MS - 1, (499_999, 500_000)),
        (10 * MINUTE_MS, (500_000,)),
        (50 * MINUTE_MS - 1, (500_000,)),
        (50 * MINUTE_MS, (500_000, 500_001)),
        (HOUR_MS - 1, (500_000, 500_001)),
    ],
)
def test_within_ten_minutes_of_a_boundary_the_neighbour_counts_too(into_ms: int, expected: tuple[int, ...]) -> None:
    assert current_buckets(START_MS + into_ms) == expected


@clause("7.10")
@given(times, st.integers(-3, 3))
def test_two_clocks_ten_minutes_apart_always_agree_on_a_bucket(now_ms: int, skew_minutes: int) -> None:
    assert takes_put(bucket_at(now_ms), now_ms=now_ms + skew_minutes * 3 * MINUTE_MS)


@clause("7.10")
def test_a_replica_is_taken_for_thirty_days_and_never_for_the_future() -> None:
    end_ms = bucket_end_ms(500_000)
    assert takes_block(500_000, now_ms=START_MS)
    assert takes_block(500_000, now_ms=end_ms + 30 * DAY_MS - 1)
    assert not takes_block(500_000, now_ms=end_ms + 30 * DAY_MS)
    assert takes_block(500_001, now_ms=end_ms - 1)
    assert not takes_block(500_001, now_ms=START_MS + 30 * MINUTE_MS)
    assert time_buckets.hashes_kept_until_ms(500_000) == end_ms + 30 * DAY_MS + HOUR_MS


@clause("7.6")
def test_a_record_is_taken_for_its_period_a_day_longer_and_one_period_ahead() -> None:
    now_ms = 700 * PERIOD_MS
    assert [takes_record(period, now_ms=now_ms) for period in range(698, 703)] == [False, True, True, True, False]
    assert not takes_record(699, now_ms=now_ms + DAY_MS)
    assert not takes_record(0xFFFF_FFFF, now_ms=now_ms)


@clause("7.5")
def test_a_read_ends_the_polling_an_hour_and_finalizes_a_day_after_the_end() -> None:
    end_ms = bucket_end_ms(500_000)
    assert not read_can_end(500_000, began_at_ms=end_ms + HOUR_MS - 1)
    assert read_can_end(500_000, began_at_ms=end_ms + HOUR_MS)
    assert not read_can_finalize(500_000, began_at_ms=end_ms + DAY_MS - 1)
    assert read_can_finalize(500_000, began_at_ms=end_ms + DAY_MS)


@clause("7.5")
def test_old_open_buckets_are_read_after_1_2_4_up_to_24_hours() -> None:
    pauses = [time_buckets.pause_after_reads_ms(reads) // HOUR_MS for reads in range(1, 9)]
    assert pauses == [1, 2, 4, 8, 16, 24, 24, 24]


@clause("7.5")
def test_a_full_sync_reads_720_buckets_up_to_the_current_one() -> None:
    assert bucket_at(START_MS) - time_buckets.first_readable_bucket(START_MS) + 1 == 720
    assert time_buckets.first_readable_bucket(HOUR_MS) == 0


@clause("7.6")
@given(times)
def test_what_a_sender_asks_for_the_owner_has_published(now_ms: int) -> None:
    published_a_day_ago = periods_to_publish(now_ms - DAY_MS)
    asked = periods_to_ask(now_ms)
    assert asked[0] == now_ms // PERIOD_MS
    assert set(asked) & set(published_a_day_ago)
    assert all(record_expires_at_ms(period) > now_ms for period in asked)


@clause("7.6")
def test_near_a_boundary_a_sender_asks_for_both_periods() -> None:
    assert periods_to_ask(600 * PERIOD_MS + DAY_MS - 1) == (600, 599)
    assert periods_to_ask(600 * PERIOD_MS + DAY_MS) == (600,)
    assert periods_to_ask(601 * PERIOD_MS - DAY_MS) == (600, 601)
    assert periods_to_ask(601 * PERIOD_MS - DAY_MS - 1) == (600,)
