"""A large simulated DHT: node ids as one sorted array, routing tables computed from it when they are needed.

An id is the first 64 bits of a node id: among millions of nodes they differ. The table of a node has up to BUCKET
random nodes for each length of the common prefix, as in SPEC 7.1. The seed makes them the same at each request.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from restante.core.lookup import MOST_CONTACTS
from restante.fleet.kernels.synthetic_dice import Dice, Flags, Longs, Words

BUCKET: Final = 20
ID_BITS: Final = 64
FAREST: Final = np.uint64(2**64 - 1)
"""Stands for no node: no distance is that large."""
_ENOUGH: Final = 16
_WINDOW: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """All nodes. `ids` is sorted; `is_dead` says which of them do not answer, although tables name them."""

    seed: int
    ids: Words
    is_dead: Flags

    @property
    def depth(self) -> int:
        """Return how many bits two ids of this network have in common at most, but for very few."""
        return min(ID_BITS - 1, len(self.ids).bit_length() + 10)

    def contacts(self, nodes: Words, targets: Words) -> Words:
        """Return for each pair the distances of the closest contacts in the node's table, FAREST for missing ones."""
        bits = (ID_BITS - 1 - np.arange(self.depth)).astype(np.uint64)
        first = ((nodes[:, None] >> bits) ^ np.uint64(1)) << bits
        low = np.searchsorted(self.ids, first.ravel()).reshape(first.shape)
        last = first | ((np.uint64(1) << bits) - np.uint64(1))
        size = np.searchsorted(self.ids, last.ravel(), side="right").reshape(first.shape) - low
        place = np.arange(BUCKET)
        about = (nodes[:, None] + np.arange(self.depth).astype(np.uint64))[:, :, None] * np.uint64(BUCKET)
        drawn = Dice(self.seed).words("bucket", (about + place.astype(np.uint64)).view(np.int64))
        many = np.maximum(size, 1)[:, :, None]
        chosen = np.where(size[:, :, None] <= BUCKET, place, (drawn % many.astype(np.uint64)).astype(np.int64))
        is_known = place < size[:, :, None]
        found = self.ids[np.minimum(low[:, :, None] + chosen, len(self.ids) - 1)]
        distance = np.where(is_known, found ^ targets[:, None, None], FAREST).reshape(len(nodes), -1)
        distance.sort(axis=1)
        distance[:, 1:][distance[:, 1:] == distance[:, :-1]] = FAREST  # drawn twice
        closest: Words = np.sort(distance[:, : 2 * MOST_CONTACTS], axis=1)[:, :MOST_CONTACTS]
        return closest

    def dead(self, nodes: Words) -> Flags:
        found: Flags = self.is_dead[np.searchsorted(self.ids, nodes)]
        return found

    def closest_living(self, targets: Words, want: int) -> Words:
        """Return the distances of the closest nodes that answer, from the whole network."""
        low = np.zeros(len(targets), dtype=np.int64)
        high = np.full(len(targets), len(self.ids))
        for bit in range(self.depth):
            shift = np.uint64(ID_BITS - 1 - bit)
            first = (targets >> shift) << shift
            start = np.searchsorted(self.ids, first)
            end = np.searchsorted(self.ids, first | ((np.uint64(1) << shift) - np.uint64(1)), side="right")
            is_enough = end - start >= _ENOUGH + want
            low, high = np.where(is_enough, start, low), np.where(is_enough, end, high)
        places = low[:, None] + np.arange(_WINDOW)
        inside = np.minimum(places, len(self.ids) - 1)
        is_candidate = (places < high[:, None]) & ~self.is_dead[inside]
        distance = np.where(is_candidate, self.ids[inside] ^ targets[:, None], FAREST)
        found: Words = np.sort(distance, axis=1)[:, :want]
        return found


@lru_cache(maxsize=1)
def network(nodes: int, *, dead: float, seed: int) -> Network:
    """Return the network of a seed. A process makes it once for all of its batches."""
    dice = Dice(seed)
    ids = np.unique(dice.words("node", np.arange(nodes)))
    places: Longs = np.arange(len(ids))
    return Network(seed=seed, ids=ids, is_dead=dice.meets("dead", places, dead))


def searches(net: Network, numbers: Longs) -> tuple[Any, Any]:
    """Return a living node and a target for each search."""
    dice = Dice(net.seed)
    living = net.ids[~net.is_dead]
    start = living[(dice.words("start", numbers) % np.uint64(len(living))).astype(np.int64)]
    return start, dice.words("target", numbers)
