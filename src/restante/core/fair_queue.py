"""Turns between sources and, within a source, between connections (SPEC 6.8). No clock: items go in, turns come out.

Deficit round robin on two levels. A turn of a source serves its connections in rotation for about `SOURCE_TURN` of
cost, each of them for about `CONNECTION_TURN`. What an item costs above that is a debt, which later turns pay, so that
equal backlogs get equal shares whatever the size of their items.
"""

from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

SOURCE_TURN: Final = 64  # small enough that one commit batch serves many sources
CONNECTION_TURN: Final = 16

Item = TypeVar("Item")


class _Queued(NamedTuple, Generic[Item]):
    item: Item
    cost: int


class _Line(Generic[Item]):
    """What one connection has queued, oldest first. A negative `credit` is a debt."""

    __slots__ = ("credit", "items")

    def __init__(self) -> None:
        self.items: deque[_Queued[Item]] = deque()
        self.credit = 0


class _Source(Generic[Item]):
    """The connections of one source in the order of their turns, and how many items they have queued."""

    __slots__ = ("count", "credit", "lines")

    def __init__(self) -> None:
        self.lines: dict[Hashable, _Line[Item]] = {}
        self.count = 0
        self.credit = 0


class FairQueue(Generic[Item]):
    """Items of many connections. The order within one connection is kept."""

    def __init__(self) -> None:
        self._sources: dict[Hashable, _Source[Item]] = {}
        self._count = 0
        self.cost = 0

    def __len__(self) -> int:
        return self._count

    def add(self, source: Hashable, connection: Hashable, item: Item, *, cost: int) -> None:
        """Queue an item. What had nothing queued joins at the end of its rotation."""
        found = self._sources.get(source)
        if found is None:
            found = self._sources[source] = _Source()
        line = found.lines.get(connection)
        if line is None:
            line = found.lines[connection] = _Line()
        line.items.append(_Queued(item, cost))
        found.count += 1
        self._count += 1
        self.cost += cost

    def take(self, budget: int) -> list[Item]:
        """Return the next items, in turns, until they cost at least `budget` or none are left."""
        taken: list[Item] = []
        while self._count and budget > 0:
            budget -= self._serve_source(taken)
        return taken

    def _serve_source(self, taken: list[Item]) -> int:
        """Give the first source its turn, move it to the end, and return what its items cost."""
        key, source = next(iter(self._sources.items()))
        del self._sources[key]
        before = len(taken)
        served = 0
        source.credit += SOURCE_TURN
        while source.count and source.credit > 0:
            cost = self._serve_connection(source, taken)
            source.credit -= cost
            served += cost
        source.credit = min(source.credit, 0)
        if source.count or source.credit < 0:  # a debt stays, or many small backlogs would pay for large items
            self._sources[key] = source
        self._count -= len(taken) - before
        self.cost -= served
        return served

    def _serve_connection(self, source: _Source[Item], taken: list[Item]) -> int:
        """Give the source's first connection its turn, move it to the end, and return what its items cost."""
        key, line = next(iter(source.lines.items()))
        del source.lines[key]
        served = 0
        line.credit += CONNECTION_TURN
        while line.items and line.credit > 0:
            item, cost = line.items.popleft()
            taken.append(item)
            source.count -= 1
            line.credit -= cost
            served += cost
        line.credit = min(line.credit, 0)
        if line.items or line.credit < 0:
            source.lines[key] = line
        return served
