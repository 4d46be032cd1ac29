"""When a node may delete expired blobs: not right after its clock has jumped (SPEC 6.10)."""

from typing import Final

CLOCK_JUMP_MS: Final = 24 * 3_600_000
"""A clock this far past the last journal event may be wrong. An operator has as long to notice."""


def reap_not_before_ms(*, now_ms: int, last_event_at_ms: int | None, earlier_ms: int) -> int:
    """Return when a node that starts now may reap for the first time.

    `earlier_ms` is what a start before this one returned: a restart must not end the delay.
    """
    if last_event_at_ms is not None and now_ms - last_event_at_ms > CLOCK_JUMP_MS:
        return now_ms + CLOCK_JUMP_MS
    return earlier_ms


def may_reap(*, now_ms: int, not_before_ms: int) -> bool:
    """Return whether the delay is over. One that ends later than the longest delay was set by a wrong clock."""
    return now_ms >= not_before_ms or not_before_ms - now_ms > CLOCK_JUMP_MS
