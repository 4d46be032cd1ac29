"""Hours in which mail is stored and read, and the 30-day periods of prekey records (SPEC 7.2, 7.5, 7.6, 7.10).

All times are network time (policy/mesh/network_time).
"""

from typing import Final

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
MINUTE_MS: Final = 60_000
BUCKET_MS: Final = HOUR_MS
BOUNDARY_MS: Final = 10 * MINUTE_MS
"""This close to a boundary the neighbour bucket counts, too."""
PERIOD_MS: Final = 30 * DAY_MS
PERIOD_MARGIN_MS: Final = DAY_MS
MOST_PERIODS_AHEAD: Final = 1
RETENTION_MS: Final = 30 * DAY_MS
FULL_SYNC_BUCKETS: Final = 720
FIRST_READ_MS: Final = HOUR_MS
"""A read that begins this long after the bucket's end can end its polling."""
SECOND_READ_MS: Final = 24 * HOUR_MS
"""A read that begins this long after the bucket's end can finalize it."""
RECENT_MS: Final = 3 * HOUR_MS
"""Open buckets whose end is longer ago are read with growing pauses."""
LONGEST_PAUSE_MS: Final = 24 * HOUR_MS


def bucket_at(now_ms: int) -> int:
    return now_ms // BUCKET_MS


def bucket_end_ms(bucket: int) -> int:
    return (bucket + 1) * BUCKET_MS


def current_buckets(now_ms: int) -> tuple[int, ...]:
    """Return the buckets that a node takes puts for and a recipient reads now: the current one, and the neighbour
    within 10 minutes of the boundary."""
    bucket = bucket_at(now_ms)
    into_ms = now_ms - bucket * BUCKET_MS
    if into_ms < BOUNDARY_MS and bucket > 0:
        return bucket - 1, bucket
    if BUCKET_MS - into_ms <= BOUNDARY_MS:
        return bucket, bucket + 1
    return (bucket,)


def takes_put(bucket: int, *, now_ms: int) -> bool:
    """Return whether a node takes a put into this bucket; otherwise it answers WRONG_BUCKET (SPEC 7.10)."""
    return bucket in current_buckets(now_ms)


def takes_block(bucket: int, *, now_ms: int) -> bool:
    """Return whether a node takes a replica of this bucket: one of the last 30 days, or the next one at a boundary."""
    return bucket <= max(current_buckets(now_ms)) and now_ms < bucket_end_ms(bucket) + RETENTION_MS


def hashes_kept_until_ms(bucket: int) -> int:
    """Return until when a node keeps the hash of a deleted blob (SPEC 7.4)."""
    return bucket_end_ms(bucket) + RETENTION_MS + HOUR_MS


def first_readable_bucket(now_ms: int) -> int:
    """Return the oldest bucket of a full sync."""
    return max(0, bucket_at(now_ms) - FULL_SYNC_BUCKETS + 1)


def read_can_end(bucket: int, *, began_at_ms: int) -> bool:
    """Return whether a read that began then may end the polling of this bucket."""
    return began_at_ms >= bucket_end_ms(bucket) + FIRST_READ_MS


def read_can_finalize(bucket: int, *, began_at_ms: int) -> bool:
    """Return whether a read that began then may finalize this bucket. Answers of the first hour missed mail in a
    three-hour partition; those of a day later did not."""
    return began_at_ms >= bucket_end_ms(bucket) + SECOND_READ_MS


def pause_after_reads_ms(reads_when_old: int) -> int:
    """Return how long an open bucket older than 3 hours waits after its n-th read since then: 1, 2, 4 … 24 hours."""
    doublings = min(max(reads_when_old, 1) - 1, 5)
    return min(HOUR_MS << doublings, LONGEST_PAUSE_MS)


def is_old(bucket: int, *, now_ms: int) -> bool:
    return now_ms >= bucket_end_ms(bucket) + RECENT_MS


def period_at(now_ms: int) -> int:
    return now_ms // PERIOD_MS


def periods_to_publish(now_ms: int) -> tuple[int, int]:
    """Return the periods whose prekey records the owner keeps published: the current and the next."""
    return period_at(now_ms), period_at(now_ms) + 1


def periods_to_ask(now_ms: int) -> tuple[int, ...]:
    """Return the periods that a sender asks for: the current one, and the neighbour within a day of the boundary."""
    period = period_at(now_ms)
    into_ms = now_ms - period * PERIOD_MS
    if into_ms < PERIOD_MARGIN_MS and period > 0:
        return period, period - 1
    if PERIOD_MS - into_ms <= PERIOD_MARGIN_MS:
        return period, period + 1
    return (period,)


def record_expires_at_ms(period: int) -> int:
    """Return until when nodes keep a record: a day longer than its period."""
    return (period + 1) * PERIOD_MS + PERIOD_MARGIN_MS


def takes_record(period: int, *, now_ms: int) -> bool:
    """Return whether a node keeps a prekey record of this period: the next one at most, and one that still counts."""
    return period <= period_at(now_ms) + MOST_PERIODS_AHEAD and now_ms < record_expires_at_ms(period)
