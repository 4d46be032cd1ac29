"""How TCP waits for a line that is cut: it sends again after 200 ms, then after twice as long each time.

All that two peers say to each other over one connection waits together, and goes on only when TCP tries again. That may
be as long after the cut as the cut lasted.
"""

from typing import Final

FIRST_MS: Final = 200


class Backoff:
    """One direction of one connection."""

    __slots__ = ("_wait_ms", "until_ms")

    def __init__(self) -> None:
        self.until_ms = 0
        """Nothing passes before."""
        self._wait_ms = FIRST_MS

    def failed(self, now_ms: int) -> None:
        """What was sent did not arrive."""
        self.until_ms = now_ms + self._wait_ms
        self._wait_ms *= 2

    def passed(self) -> None:
        self._wait_ms = FIRST_MS


class Line:
    """The connection between two peers, which all their segments share: a direction each."""

    __slots__ = ("directions",)

    def __init__(self) -> None:
        self.directions = (Backoff(), Backoff())
