"""How long to wait for a circuit, learned from earlier builds (SPEC 11.3, NETWORK 4).

5 s at first, then 1.5 times the 80 % quantile of the last builds. A build that timed out is still measured if it ends
before three times the limit, so that the quantile learns from slow networks. After many time-outs in a row the limit
doubles.
"""

from collections import deque
from typing import Final

FIRST_S: Final = 5.0
MIN_S: Final = 0.5
MAX_S: Final = 60.0
REMEMBERED: Final = 100
ENOUGH: Final = 10
QUANTILE: Final = 0.8
FACTOR: Final = 1.5
MEASURED_FACTOR: Final = 3.0
"""A build that timed out is measured for this many times the limit."""
TIMEOUTS_TO_WIDEN: Final = 5


class BuildTimes:
    __slots__ = ("_in_a_row", "_times", "_widened")

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=REMEMBERED)
        self._in_a_row = 0
        self._widened = 1

    @property
    def timeout_s(self) -> float:
        if len(self._times) < ENOUGH:
            learned = FIRST_S
        else:
            ordered = sorted(self._times)
            learned = FACTOR * ordered[min(len(ordered) - 1, int(QUANTILE * len(ordered)))]
        return min(MAX_S, max(MIN_S, learned) * self._widened)

    @property
    def measured_s(self) -> float:
        """Return how long a build is measured, in use or not."""
        return min(MAX_S, MEASURED_FACTOR * self.timeout_s)

    @property
    def median_s(self) -> float | None:
        return sorted(self._times)[len(self._times) // 2] if self._times else None

    def built(self, took_s: float) -> None:
        """A circuit was built, in time or after the limit."""
        in_time = took_s <= self.timeout_s
        self._times.append(took_s)
        if in_time:
            self._in_a_row = 0
            self._widened = 1

    def timed_out(self) -> None:
        self._in_a_row += 1
        if self._in_a_row >= TIMEOUTS_TO_WIDEN:
            self._in_a_row = 0
            self._widened *= 2
