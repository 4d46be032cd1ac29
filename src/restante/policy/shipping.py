"""Compute when a journal is next shipped, also after a failure, and how long its events stay (SPEC 13.1, 13.3)."""

from dataclasses import dataclass
from typing import Final

from restante.model.kinds import KIND_RULES
from restante.model.setting_ranges import check_ranges, ranged
from restante.policy.retry import RetrySchedule, jittered_delay_ms

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000
SHIPPED_RETENTION_MS: Final = 7 * DAY_MS
"""How long an event stays in the journal after it was shipped."""
UNSHIPPED_RETENTION_MS: Final = 30 * DAY_MS
"""How long an event stays where nothing is shipped."""
LONGEST_TTL_MS: Final = max(rule.ttl_max_s for rule in KIND_RULES.values()) * 1_000
SHORTEST_RETENTION_DAYS: Final = -(-(LONGEST_TTL_MS + UNSHIPPED_RETENTION_MS) // DAY_MS)
"""How many days of events a stream keeps at least. A message may be in flight for the longest TTL, and its last event
may wait that long to be shipped: the published row of a message is complete before its first event is deleted."""
LONGEST_RETENTION_DAYS: Final = 36_500
SHIPPING_RETRY: Final = RetrySchedule(max_delay_ms=300_000)
"""The retry schedule of messages with a maximum of 5 minutes, so that a repaired store gets events soon. No limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalShipping:
    """The settings of shipping. With a minute, the fleet's tables are about a minute behind; less makes more, smaller
    files."""

    ship_interval_ms: int = ranged(60_000, low=100, high=DAY_MS, unit="ms", clause="13.1")

    def __post_init__(self) -> None:
        check_ranges(self, "journal")


def next_shipping_ms(shipping: JournalShipping, *, failures: int, dice: float) -> int:
    """Return the wait before the next shipping, after `failures` failures in a row."""
    if not failures:
        return shipping.ship_interval_ms
    return jittered_delay_ms(SHIPPING_RETRY, attempt=failures, dice=dice)


def prunable_hour(*, now_ms: int) -> int:
    """Return the last hour since the epoch in which all events that were shipped may be deleted."""
    return (now_ms - SHIPPED_RETENTION_MS) // HOUR_MS - 1
