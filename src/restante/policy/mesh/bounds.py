"""What a stranger may ask of a node of the mesh, and how often (SPEC 7.12). The time is an argument, in seconds."""

import math
from typing import Final

ENTRIES_PER_S: Final = 64
ENTRY_BURST: Final = 256
WHOLE_COPY_INTERVAL_S: Final = 3_600.0
MOST_ANSWERS: Final = 64
"""Requests of one connection whose answers wait for space in its send buffer."""
MOST_PROVED_KEYS: Final = 768
"""Keys that one connection has proved, and whose bodies it may ask for: all buckets of a full sync. The oldest go
first."""


HASHES_A_TOKEN: Final = 16


def delete_cost(hashes: int) -> int:
    """Return the tokens that a DELETE costs: it looks for each hash, so that 1,024 cost as much as a FETCH of 64."""
    return max(1, math.ceil(hashes / HASHES_A_TOKEN))


class EntryTokens:
    """Each entry of a FETCH or SUBSCRIBE costs a token, and so does whatever else needs a signature checked."""

    __slots__ = ("_at_s", "_tokens")

    def __init__(self, *, now_s: float) -> None:
        self._tokens = float(ENTRY_BURST)
        self._at_s = now_s

    def has(self, count: int, now_s: float) -> bool:
        """Return whether there are `count` tokens now."""
        self._tokens = min(self._tokens + (now_s - self._at_s) * ENTRIES_PER_S, ENTRY_BURST)
        self._at_s = now_s
        return count <= self._tokens

    def take(self, count: int, now_s: float) -> bool:
        """Use `count` tokens if there are as many; otherwise none."""
        if not self.has(count, now_s):
            return False
        self._tokens -= count
        return True

    def wait_ms(self, count: int) -> int:
        """Return how long it takes until there are `count` tokens."""
        return max(1, math.ceil((count - self._tokens) / ENTRIES_PER_S * 1_000))


class DirectoryCopies:
    """One whole copy of the directory an hour for a connection. A copy is read page by page, in order."""

    __slots__ = ("_began_s", "_next_cursor")

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._next_cursor: int | None = None

    def may_send(self, cursor: int, now_s: float) -> bool:
        """Return whether the page at this cursor belongs to a copy that the connection may have."""
        if cursor and cursor == self._next_cursor:
            return True
        is_first = cursor == 0
        may_begin = self._began_s is None or now_s - self._began_s >= WHOLE_COPY_INTERVAL_S
        if not (is_first and may_begin):
            return False
        self._began_s = now_s
        return True

    def sent(self, next_cursor: int | None) -> None:
        self._next_cursor = next_cursor

    def wait_ms(self, now_s: float) -> int:
        began_s = now_s if self._began_s is None else self._began_s
        return max(1, math.ceil((began_s + WHOLE_COPY_INTERVAL_S - now_s) * 1_000))
