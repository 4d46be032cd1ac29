"""How often circuits are tried while none can be built (SPEC 11.3): rounds of a few builds, ever farther apart.

One pass over an inbox asks for circuits to ten nodes, three times each. Where guards or hops are dead, each of these
requests would fail for the same reason, one after the other. After a few rounds that failed in a row, a request before
the next round fails at once with the reason of the last one. Any circuit that is built ends all waits. Messages are
tried again soon: a first one after the network's return finds it.
"""

from enum import Enum
from typing import Final

FREE_ROUNDS: Final = 4
"""So many may fail in a row before there is a wait: in a mesh of which half is dead, one of them usually succeeds."""
FIRST_WAIT_S: Final = 0.5
SLOW_ROUND_S: Final = 2.0
"""A round that fails only after this is enough: guards that are silent would be waited for again and again."""


class Purpose(Enum):
    """What a circuit is built for. The value is the longest wait between two rounds, in seconds."""

    STORES = 1.0
    READING = 4.0
    SPARE = 8.0


class BuildBackoff:
    __slots__ = ("_failed", "_not_before_s")

    def __init__(self) -> None:
        self._failed = 0
        self._not_before_s = dict.fromkeys(Purpose, 0.0)

    def may_begin(self, purpose: Purpose, now_s: float) -> bool:
        """Return whether a round may begin now; the next one for this purpose then waits."""
        if self._failed < FREE_ROUNDS:
            return True
        if now_s < self._not_before_s[purpose]:
            return False
        self._wait(purpose, now_s)
        return True

    def failed(self, purpose: Purpose, *, took_s: float, now_s: float) -> None:
        """A round ended without a circuit."""
        self._failed += FREE_ROUNDS if took_s >= SLOW_ROUND_S else 1
        if self._failed >= FREE_ROUNDS:
            self._wait(purpose, now_s)

    def built(self) -> None:
        self._failed = 0
        self._not_before_s = dict.fromkeys(Purpose, 0.0)

    def _wait(self, purpose: Purpose, now_s: float) -> None:
        doublings = min(max(0, self._failed - FREE_ROUNDS), 10)
        self._not_before_s[purpose] = now_s + min(FIRST_WAIT_S * 2**doublings, purpose.value)
