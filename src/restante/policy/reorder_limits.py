"""Limits of the reorder buffer: how large a gap may be and how long it is waited for (SPEC 9.4, 9.5).

core/inbox decides what happens at a limit.
"""

from dataclasses import dataclass
from typing import Final

from restante.model.ids import MAX_SEQUENCE
from restante.model.setting_ranges import check_ranges, ranged

DAY_MS: Final = 86_400_000
RETRANSMIT_SPAN: Final = 10  # SPEC 9.5: a request is for [missing, missing + 10]
MAX_MISSING: Final = 1_000  # SPEC 8.2: a session keeps at most this many skipped keys
MAX_UNRECEIPTED_AT_SWITCH: Final = MAX_MISSING // 2
"""Mail changes to another inbox of its recipient only with at most so many messages unreceipted: the recipient reads
both inboxes at once, and what comes through the new one must not be too far ahead."""
MISSING_LIFE_MS: Final = 30 * DAY_MS  # SPEC 8.2: and for this long


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLimits:
    """The settings of the reorder buffer."""

    max_gap: int = ranged(1_000, low=1, high=1_000, unit="messages", clause="9.4")
    gap_timeout_ms: int = ranged(300_000, low=1_000, high=DAY_MS, unit="ms", clause="9.5")

    def __post_init__(self) -> None:
        check_ranges(self, "order")


def is_too_far_ahead(limits: OrderLimits, *, sequence: int, highest_read: int) -> bool:
    """Return whether a message is so far ahead of the highest number read that it counts as unreadable (SPEC 9.4)."""
    return sequence - highest_read > limits.max_gap


def gap_ends_at_ms(limits: OrderLimits, *, oldest_waiting_ms: int) -> int:
    """Return when a gap is skipped. Its age is that of the oldest buffered message behind it."""
    return oldest_waiting_ms + limits.gap_timeout_ms


def retransmit_range(missing: int) -> tuple[int, int]:
    """Return the first and last number to request again, both included."""
    return missing, min(missing + RETRANSMIT_SPAN, MAX_SEQUENCE)


def is_kept_open(*, skipped_at_ms: int, now_ms: int) -> bool:
    """Return whether a skipped message may still arrive. After that its key is deleted."""
    return now_ms < skipped_at_ms + MISSING_LIFE_MS
