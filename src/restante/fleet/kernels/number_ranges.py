"""Event numbers as runs (first to last). Events come almost in order, so millions are a few runs.

Finds numbers of a writer that occur more than once, without comparing rows. transforms/prescan decides what follows.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from restante.fleet.kernels.arrivals_schema import Ints, Words, halves


class Runs(NamedTuple):
    """Runs by the first 8 bytes of their writer, `first` and `last` included. A number that came twice is in two."""

    writer: Words
    first: Words
    last: Words

    def __len__(self) -> int:
        return len(self.first)


NO_RUNS = Runs(*(np.empty(0, dtype=np.uint64) for _ in range(3)))


def runs_in(event_ids: Any) -> Runs:
    """The runs of a column of event ids, each of 16 bytes."""
    words = halves(event_ids).byteswap()  # both halves are written with the highest byte first
    writer, number = words[:, 0], words[:, 1]
    in_order = _order(writer, number)
    writer, number = writer[in_order], number[in_order]
    return _cut(Runs(writer, number, number))


def joined(parts: Iterable[Runs]) -> Runs:
    """All of `parts`, in order; a run that goes on where another ends is one with it."""
    together = [NO_RUNS, *parts]
    writer, first, last = (np.concatenate(column) for column in zip(*together, strict=True))
    in_order = _order(writer, first)
    return _cut(Runs(writer[in_order], first[in_order], last[in_order]))


def repeated(runs: Runs) -> Runs:
    """The numbers that are in more than one of `runs`: again as runs, none of which meet."""
    writer, first, last = joined([runs])
    if not np.any((writer[1:] == writer[:-1]) & (first[1:] <= last[:-1])):
        return NO_RUNS
    found: list[tuple[int, int, int]] = []
    for one in _shared(zip(writer.tolist(), first.tolist(), last.tolist(), strict=True)):
        if found and found[-1][0] == one[0] and one[1] <= found[-1][2]:
            found[-1] = (one[0], found[-1][1], max(found[-1][2], one[2]))
        else:
            found.append(one)
    return Runs(*(np.array(column, dtype=np.uint64) for column in zip(*found, strict=True)))


def _shared(runs: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """What each run has in common with those before it, in order of their first numbers."""
    current, reached = -1, -1
    for writer, first, last in runs:
        if writer != current:
            current, reached = writer, -1
        if first <= reached:
            yield writer, first, min(last, reached)
        reached = max(reached, last)


def _order(writer: Words, number: Words) -> Ints | slice:
    rises = (writer[1:] > writer[:-1]) | ((writer[1:] == writer[:-1]) & (number[1:] >= number[:-1]))
    return slice(None) if rises.all() else np.lexsort((number, writer))


def _cut(runs: Runs) -> Runs:
    """Sorted pieces, each joined to the one before it where it goes on from there."""
    begins = np.ones(len(runs), dtype=np.bool_)
    goes_on = runs.first[1:] - np.uint64(1) == runs.last[:-1]
    begins[1:] = (runs.writer[1:] != runs.writer[:-1]) | ~goes_on
    at = np.flatnonzero(begins)
    ends = np.append(at[1:], len(runs)) - 1
    return Runs(runs.writer[at], runs.first[at], runs.last[ends[: len(at)]])
