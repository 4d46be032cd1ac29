"""Decide when pending acks are sent as one batch, and which ack level wins (SPEC 3.13, 10.5).

wire/acks has the format of an ack; policy/completion says which ack ends an entry.
"""

from dataclasses import dataclass

from restante.model.setting_ranges import check_ranges, ranged
from restante.model.states import Confirmation


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
