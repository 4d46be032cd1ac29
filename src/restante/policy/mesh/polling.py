"""How often a recipient reads its open buckets (SPEC 7.5)."""

from typing import Final

POLL_MS: Final = 10_000
"""While too few nodes push new mail."""
SUBSCRIBED_POLL_MS: Final = 60_000
"""While enough nodes push it: the poll finds what they left out."""
SHORTEST_WAIT_MS: Final = 1_000
LISTS_WAIT_MS: Final = 3_000
"""While too few nodes push, so long a read of a recent bucket waits for the last lists, if two nodes have sent theirs.
A node may be silent for half a minute, over three circuits, and what others list or push would wait for it."""
TRUSTED_PUSHES: Final = 2
"""While so many of the five nodes push, little can be stored that none of them pushed: two at least get a message."""

MOST_UNSENT: Final = 16
"""After so many requests for which it did not send all bodies that it listed, a node is not asked again in this pass.
It may list 10,000 hashes that exist nowhere in each of 720 buckets, and keep silent for each request."""


def poll_interval_ms(*, is_subscribed: bool, passes_unpushed: int = 0) -> int:
    """Return the time until the next read. After so many passes in a row that left too few nodes pushing, it is 1, 2,
    4 … 10 s: the recipient's own circuits may have failed."""
    if is_subscribed:
        return SUBSCRIBED_POLL_MS
    return min(POLL_MS, SHORTEST_WAIT_MS << min(passes_unpushed - 1, 10)) if passes_unpushed else POLL_MS


def wait_ms(*, next_read_at_ms: int | None, now_ms: int, interval_ms: int) -> int:
    """Return how long to wait before the next pass: until a bucket is due, at most one interval."""
    until_ms = interval_ms if next_read_at_ms is None else next_read_at_ms - now_ms
    return min(max(until_ms, SHORTEST_WAIT_MS), interval_ms)
