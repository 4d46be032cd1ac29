"""Compute when a failed attempt is repeated (SPEC 4.1, 4.2). Time and dice are arguments.

policy/failures decides which failures are retried.
"""

from dataclasses import dataclass
from typing import Final

from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, OutOfRange
from restante.model.setting_ranges import check_ranges, ranged

DOUBLING_ATTEMPTS: Final = 10  # SPEC 4.1: the eleventh attempt and all later ones wait max_delay
HOUR_MS: Final = 3_600_000
DEFAULT_MAX_DELAY_MS: Final = HOUR_MS  # SPEC 4.1
CHANNEL_DELAYS_MS: Final = (5_000, 25_000, 120_000, 600_000)  # SPEC 4.2: the last one repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySchedule:
    """Mesh and relay: exponential backoff up to a maximum, with jitter."""

    base_ms: int = ranged(1_000, low=100, high=10_000, unit="ms", clause="4.1")
    max_delay_ms: int = ranged(DEFAULT_MAX_DELAY_MS, low=60_000, high=86_400_000, unit="ms", clause="4.1")
    jitter: float = ranged(0.2, low=0.0, high=0.5, unit="", clause="4.1")
    max_attempts: int = ranged(15, low=5, high=50, unit="attempts", clause="4.1")

    def __post_init__(self) -> None:
        check_ranges(self, "retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSchedule:
    """Channels: fixed steps without jitter, because each platform has only one sender here."""

    max_attempts: int = ranged(5, low=1, high=50, unit="attempts", clause="4.2")

    def __post_init__(self) -> None:
        check_ranges(self, "channel_retry")


Schedule = RetrySchedule | ChannelSchedule


def delay_ms(schedule: Schedule, attempt: int) -> int:
    """Return the delay after failed attempt number `attempt` (the first is 1), before jitter."""
    if attempt < 1:
        raise LocalProtocolError(f"attempts are counted from 1, not {attempt}", code=Code.OUT_OF_RANGE)
    if isinstance(schedule, ChannelSchedule):
        return CHANNEL_DELAYS_MS[min(attempt, len(CHANNEL_DELAYS_MS)) - 1]
    if attempt > DOUBLING_ATTEMPTS:
        return schedule.max_delay_ms
    return min(schedule.base_ms << (attempt - 1), schedule.max_delay_ms)


def jittered_delay_ms(schedule: Schedule, *, attempt: int, dice: float) -> int:
    """Return the delay with jitter. The host draws `dice` uniformly from [-1, 1]."""
    if not -1 <= dice <= 1:
        raise OutOfRange("dice", dice, low=-1, high=1)
    delay = delay_ms(schedule, attempt)
    if isinstance(schedule, ChannelSchedule):
        return delay
    return delay + round(delay * schedule.jitter * dice)


def next_attempt_at(schedule: Schedule, *, attempts: int, now_ms: int, dice: float) -> int | None:
    """Return the time of the next attempt after `attempts` failed ones, or None if they are used up."""
    if attempts >= schedule.max_attempts:
        return None
    return now_ms + jittered_delay_ms(schedule, attempt=attempts, dice=dice)


def longest_wait_ms(schedule: Schedule) -> int:
    """Return the longest wait that a failed attempt can lead to. A longer one on disk shows a clock that jumped."""
    if isinstance(schedule, ChannelSchedule):
        return 24 * HOUR_MS  # a chat platform may ask for as much
    return max(HOUR_MS, round(schedule.max_delay_ms * (1 + schedule.jitter)))


def longest_delay_ms(schedule: Schedule) -> int:
    """Return the cap of waits that do not follow the schedule's steps. Channels use the default."""
    return DEFAULT_MAX_DELAY_MS if isinstance(schedule, ChannelSchedule) else schedule.max_delay_ms
