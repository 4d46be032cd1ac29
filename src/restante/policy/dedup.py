"""The size and retention of the dedup index (SPEC 9.2). core/deduplication decides what a duplicate is."""

from dataclasses import dataclass
from typing import Final

from restante.model.setting_ranges import check_ranges, ranged

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupLimits:
    """The settings of the dedup index."""

    max_entries: int = ranged(100_000, low=1_000, high=10_000_000, unit="entries", clause="9.2")
    max_bytes: int = ranged(10_000_000, low=100_000, high=1_000_000_000, unit="bytes", clause="9.2")
    window_ms: int = ranged(30 * DAY_MS, low=7 * DAY_MS, high=90 * DAY_MS, unit="ms", clause="9.2")

    def __post_init__(self) -> None:
        check_ranges(self, "dedup")


def is_fresh(limits: DedupLimits, *, seen_at_ms: int, now_ms: int) -> bool:
    """Return whether an index entry last seen then is still valid. Older ones may be evicted."""
    return now_ms < seen_at_ms + limits.window_ms


def to_evict(limits: DedupLimits, *, entries: int, measured_bytes: int) -> int:
    """Return how many of the least recently seen entries must be evicted.

    The bytes of an entry are taken as the average. If sizes differ much, measure and call it again after evicting.
    """
    over_count = max(0, entries - limits.max_entries)
    if measured_bytes <= limits.max_bytes:
        return over_count
    kept_by_bytes = entries * limits.max_bytes // measured_bytes
    return max(over_count, entries - kept_by_bytes)
