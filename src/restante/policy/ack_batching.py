"""Decide when pending acks are sent, and which ack level wins (SPEC 3.13, 10.3, 10.5).

wire/acks has the format of an ack; policy/completion says which ack ends an entry.
"""

from dataclasses import dataclass
from typing import Final

from restante.model.setting_ranges import check_ranges, ranged
from restante.model.states import Confirmation

DAY_MS: Final = 86_400_000
AGAIN_DELAY_MS: Final = 6 * 3_600_000  # SPEC 10.3: a duplicate is acknowledged again after a random 0 to 6 h


@dataclass(frozen=True, slots=True, kw_only=True)
class AckBatching:
    max_wait_ms: int = ranged(1_000, low=0, high=60_000, unit="ms", clause="10.5")
    max_ids: int = ranged(64, low=1, high=1_024, unit="ids", clause="10.5")

    def __post_init__(self) -> None:
        check_ranges(self, "acks")


def batch_due_at_ms(batching: AckBatching, *, count: int, oldest_at_ms: int) -> int | None:
    """Return when a batch of `count` ids must be sent, None for an empty one. A full batch is due at once."""
    if count == 0:
        return None
    return oldest_at_ms if count >= batching.max_ids else oldest_at_ms + batching.max_wait_ms


def advance(confirmation: Confirmation, to: Confirmation) -> Confirmation:
    """Return the ack level after an ack of level `to`. A late, lower ack changes nothing."""
    return max(confirmation, to)


def may_acknowledge_again(acked_again_at_ms: int, *, now_ms: int) -> bool:
    """Return whether a duplicate may be acknowledged again: once a day (SPEC 10.3). A time in the future is a clock
    that was set back, and counts as over."""
    return now_ms >= acked_again_at_ms + DAY_MS or acked_again_at_ms > now_ms


def again_delay_ms(dice: float) -> int:
    """Return how long the acknowledgement of a duplicate waits. `dice` is uniform in [-1, 1]."""
    return round(AGAIN_DELAY_MS * (dice + 1) / 2)
