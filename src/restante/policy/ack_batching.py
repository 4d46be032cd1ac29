"""When waiting acknowledgements are sent as one batch, and how confirmations add up (SPEC 3.13, 10.5).

The bytes of an acknowledgement are in wire; what a confirmation ends is in policy/completion.
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
    """When a batch of `count` ids is to leave; None for an empty one. A full batch was due when it was begun."""
    if count == 0:
        return None
    return oldest_at_ms if count >= batching.max_ids else oldest_at_ms + batching.max_wait_ms


def advance(confirmation: Confirmation, to: Confirmation) -> Confirmation:
    """What is confirmed after `to` came in; a late, lesser acknowledgement changes nothing."""
    return max(confirmation, to)
