"""Iterative lookups of SPEC 7.1, many at a time: the steps of core/lookup on arrays, one row for each lookup.

Requests are answered in the order in which they were sent. A parity test holds rounds, requests and results equal to
core/lookup. Nodes are known by their distance to the target, which identifies them.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from restante.core.lookup import ALPHA, MOST_KNOWN
from restante.fleet.kernels.dht_network import FAREST, Network, searches
from restante.fleet.kernels.synthetic_dice import Flags, Longs, Words

WANT: Final = 5
_WIDTH: Final = MOST_KNOWN + 20
_NO, _WAITING, _ANSWERED, _FAILED = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupResults:
    """One value for each lookup. `closest` has the distances of the nodes found, FAREST where there are fewer."""

    rounds: Longs
    requests: Longs
    closest: Words


def look_up(net: Network, start: Words, targets: Words, *, want: int = WANT) -> LookupResults:
    """Search for each target from the table of its start node."""
    search = _Searches(net, start, targets, want)
    active = np.arange(len(targets))
    while len(active):
        active = active[~search.ask(active)]
        if len(active):
            search.answer(active)
    return search.results()


def found_closest(net: Network, results: LookupResults, targets: Words, *, want: int = WANT) -> tuple[Flags, Flags]:
    """Return whether each lookup found the closest living node, and whether it found all of the `want` closest."""
    expected = net.closest_living(targets, want)
    first: Flags = results.closest[:, 0] == expected[:, 0]
    whole: Flags = (results.closest == expected).all(axis=1)
    return first, whole


def run_batch(net: Network, numbers: Longs) -> dict[str, Any]:
    """Run the lookups with these numbers and return the columns of their results."""
    start, targets = searches(net, numbers)
    results = look_up(net, start, targets)
    first, whole = found_closest(net, results, targets)
    return {"rounds": results.rounds, "requests": results.requests, "found_closest": first, "found_all": whole}


class _Searches:
    """The state of all lookups: known nodes sorted by distance, with what is known of each."""

    def __init__(self, net: Network, start: Words, targets: Words, want: int) -> None:
        rows = len(targets)
        self.net, self.targets, self.want = net, targets, want
        self.distance: Any = np.full((rows, _WIDTH), FAREST)
        self.asked: Any = np.zeros((rows, _WIDTH), dtype=np.int8)
        self.depth: Any = np.zeros((rows, _WIDTH), dtype=np.int8)
        self.order: Any = np.zeros((rows, _WIDTH), dtype=np.int32)
        own = net.contacts(start, targets)
        self.distance[:, : own.shape[1]] = own
        self.rounds: Any = np.zeros(rows, dtype=np.int64)
        self.requests: Any = np.zeros(rows, dtype=np.int64)

    def ask(self, rows: Longs) -> Flags:
        """Send the requests that may be sent now. Return which lookups are finished."""
        asked, known = self.asked[rows], self.distance[rows] != FAREST
        alive = known & (asked != _FAILED)
        head = alive & (np.cumsum(alive, axis=1) <= self.want)
        done: Flags = ~(head & (asked != _ANSWERED)).any(axis=1)
        free = ALPHA - np.count_nonzero(alive & (asked == _WAITING), axis=1)
        may = head & (asked == _NO) & ~done[:, None]
        rank = np.cumsum(may, axis=1)
        chosen = may & (rank <= free[:, None])
        self.asked[rows] = np.where(chosen, _WAITING, asked)
        self.order[rows] = np.where(chosen, self.requests[rows][:, None] + rank, self.order[rows])
        self.requests[rows] += np.count_nonzero(chosen, axis=1)
        return done

    def answer(self, rows: Longs) -> None:
        """Answer the oldest request of each of these lookups."""
        waiting = self.asked[rows] == _WAITING
        oldest = np.where(waiting, self.order[rows], np.iinfo(np.int32).max).argmin(axis=1)
        nodes = self.distance[rows, oldest] ^ self.targets[rows]
        is_dead = self.net.dead(nodes)
        self.asked[rows, oldest] = np.where(is_dead, _FAILED, _ANSWERED)
        answered, at = rows[~is_dead], oldest[~is_dead]
        if len(answered):
            self._merge(answered, nodes[~is_dead], self.depth[answered, at] + 1)

    def _merge(self, rows: Longs, nodes: Words, depth: Any) -> None:
        contacts = self.net.contacts(nodes, self.targets[rows])
        new = contacts.shape[1]
        distance = np.concatenate([self.distance[rows], contacts], axis=1)
        before = self.distance[rows, : self.want]
        asked, order = (np.pad(column[rows], ((0, 0), (0, new))) for column in (self.asked, self.order))
        depths = np.concatenate([self.depth[rows], np.repeat(depth[:, None], new, axis=1)], axis=1)
        # Stable: of two equal distances the known one comes first, and the contact is dropped.
        places = np.argsort(distance, axis=1, kind="stable")
        distance = np.take_along_axis(distance, places, axis=1)
        distance[:, 1:][distance[:, 1:] == distance[:, :-1]] = FAREST
        again = np.argsort(distance, axis=1, kind="stable")[:, :_WIDTH]
        places = np.take_along_axis(places, again, axis=1)
        distance = np.take_along_axis(distance, again, axis=1)
        asked = np.take_along_axis(asked, places, axis=1)
        is_forgotten = (np.arange(_WIDTH) >= MOST_KNOWN) & (asked == _NO)
        self.distance[rows] = np.where(is_forgotten, FAREST, distance)
        self.asked[rows] = asked
        self.order[rows] = np.take_along_axis(order, places, axis=1)
        self.depth[rows] = np.take_along_axis(depths, places, axis=1)
        is_closer = (self.distance[rows, : self.want] != before).any(axis=1)
        self.rounds[rows] = np.maximum(np.where(is_closer, np.maximum(self.rounds[rows], depth), self.rounds[rows]), 1)

    def results(self) -> LookupResults:
        answered = np.where(self.asked == _ANSWERED, self.distance, FAREST)
        closest = np.sort(answered, axis=1)[:, : self.want]
        return LookupResults(rounds=self.rounds, requests=self.requests, closest=closest)
