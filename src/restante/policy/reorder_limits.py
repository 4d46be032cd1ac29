"""How far apart messages of a session may arrive, and how long a missing one is waited for (SPEC 9.4, 9.5).

Numbers only; what happens at a limit is decided in core/inbox.
"""

from dataclasses import dataclass
from typing import Final

from restante.model.ids import MAX_SEQUENCE
from restante.model.setting_ranges import check_ranges, ranged

DAY_MS: Final = 86_400_000
RETRANSMIT_SPAN: Final = 10  # SPEC 9.5: a request is for [missing, missing + 10]
MAX_MISSING: Final = 1_000  # SPEC 8.2: for more skipped messages than this a session keeps no keys
MISSING_LIFE_MS: Final = 30 * DAY_MS  # SPEC 8.2: nor for longer than this


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLimits:
    max_gap: int = ranged(1_000, low=1, high=1_000, unit="messages", clause="9.4")
    gap_timeout_ms: int = ranged(300_000, low=1_000, high=DAY_MS, unit="ms", clause="9.5")

    def __post_init__(self) -> None:
        check_ranges(self, "order")


def is_too_far_ahead(limits: OrderLimits, *, sequence: int, expected: int) -> bool:
    """Whether so much is missing before `sequence` that the session is given up.

    The buffer needs no limit of its own: what waits lies within `max_gap` of what is expected, each number once.
    """
    return sequence - expected > limits.max_gap


def gap_ends_at_ms(limits: OrderLimits, *, oldest_waiting_ms: int) -> int:
    """When a gap is skipped. It is as old as the oldest message it holds up; this very millisecond is old enough."""
    return oldest_waiting_ms + limits.gap_timeout_ms


def retransmit_range(missing: int) -> tuple[int, int]:
    """First and last number to ask for again, both included."""
    return missing, min(missing + RETRANSMIT_SPAN, MAX_SEQUENCE)


def is_kept_open(*, skipped_at_ms: int, now_ms: int) -> bool:
    """Whether a skipped message may still come; later there is no key to open it with."""
    return now_ms < skipped_at_ms + MISSING_LIFE_MS
