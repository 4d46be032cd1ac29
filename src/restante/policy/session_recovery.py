"""How often a client may ask a contact again, open a session for recovery, and re-encrypt (SPEC 8.7).

The numbers live here; core/peer_sessions decides what is asked or opened. Times are arguments.
"""

from typing import Final, NamedTuple

FIRST_RETRY_MS: Final = 5 * 60_000
MAX_RETRY_MS: Final = 24 * 3_600_000
MAX_OPENINGS_A_DAY: Final = 10
MAX_REENCRYPTED_BYTES_A_DAY: Final = 20_000_000
MAX_UNREAD: Final = 32
"""Unreadable messages remembered per contact. All their hashes fit into one control message beside an opening."""
MAX_SESSIONS: Final = 32
"""Sessions kept per contact. The oldest is deleted when there are more."""
MAX_GENERATION: Final = 0xFFFF_FFFF
"""The field has 32 bits. A peer that uses them up spoils its own conversation only."""
_DAY_MS: Final = 86_400_000


class RetryInterval(NamedTuple):
    """When the next use is allowed. `generation` is the highest session generation at the last use."""

    allowed_at_ms: int = 0
    delay_ms: int = FIRST_RETRY_MS
    generation: int = 0


def is_over(interval: RetryInterval, *, now_ms: int) -> bool:
    """Return whether the interval allows a use now.

    An end further away than the longest interval means that the clock was set back; such an interval counts as over.
    """
    return now_ms >= interval.allowed_at_ms or interval.allowed_at_ms > now_ms + MAX_RETRY_MS


def used(interval: RetryInterval, *, generation: int, now_ms: int) -> RetryInterval:
    """Start the interval; the next one is twice as long, up to a day."""
    return RetryInterval(now_ms + interval.delay_ms, min(2 * interval.delay_ms, MAX_RETRY_MS), generation)


def answered(interval: RetryInterval, *, generation: int) -> RetryInterval:
    """Go back to the shortest interval once the peer was read in a session opened since the last use."""
    if generation <= interval.generation or interval.delay_ms == FIRST_RETRY_MS:
        return interval
    return interval._replace(delay_ms=FIRST_RETRY_MS)


class DailyUse(NamedTuple):
    """What was spent for one contact on one day (days of Unix time)."""

    day: int = 0
    openings: int = 0
    reencrypted_bytes: int = 0


def today(use: DailyUse, *, now_ms: int) -> DailyUse:
    """Return the use counted for the current day; a new day starts at zero."""
    day = now_ms // _DAY_MS
    return use if use.day == day else DailyUse(day)


def may_open(use: DailyUse) -> bool:
    return use.openings < MAX_OPENINGS_A_DAY


def may_reencrypt(use: DailyUse, *, size_bytes: int) -> bool:
    return use.reencrypted_bytes + size_bytes <= MAX_REENCRYPTED_BYTES_A_DAY
