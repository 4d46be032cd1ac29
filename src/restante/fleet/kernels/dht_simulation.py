"""Simulate lookups and stored copies in a DHT of a million nodes (SPEC 7.2, 7.4). Numpy arrays in, numpy arrays out.

Nodes are 64-bit ids in a sorted array: all ids with a common prefix are a range of it. A node knows up to BUCKET
random nodes for each length of common prefix with itself. Each round asks the node that is closest to the target for
those it knows closer; nodes that have left do not answer.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

BUCKET: Final = 20
MOST_ROUNDS: Final = 64
_BITS: Final = 64

Ids = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]


def node_ids(nodes: int, seed: int) -> Ids:
    """Return the ids of all nodes, sorted."""
    drawn = np.random.default_rng(seed).integers(0, 2**64 - 1, nodes, dtype=np.uint64, endpoint=True)
    return np.sort(drawn)


def lookup_rounds(ids: Ids, targets: Ids, *, offline: float, rng: np.random.Generator) -> Counts:
    """Return how many rounds each lookup takes until it reaches the nodes closest to its target.

    `offline` is the share of known nodes that do not answer; a round without an answer is a round, too.
    """
    current = ids[rng.integers(0, len(ids), len(targets))]
    rounds = np.zeros(len(targets), dtype=np.int64)
    active = np.arange(len(targets))
    for _ in range(MOST_ROUNDS):
        shared = _common_prefix(current[active], targets[active])
        first, last = _range(ids, targets[active], np.minimum(shared + 1, _BITS))
        open_ = (last - first) > 0
        active, first, last = active[open_], first[open_], last[open_]
        if not len(active):
            break
        rounds[active] += 1
        drawn = first[:, None] + (rng.random((len(active), BUCKET)) * (last - first)[:, None]).astype(np.int64)
        known = ids[drawn]
        distance = known ^ targets[active][:, None]
        distance[rng.random(distance.shape) < offline] = np.uint64(2**64 - 1)
        best = distance.argmin(axis=1)
        found = known[np.arange(len(active)), best]
        answered = distance[np.arange(len(active)), best] != np.uint64(2**64 - 1)
        current[active[answered]] = found[answered]
        # A range that its bucket holds whole needs no further round.
        active = active[~(answered & (last - first <= BUCKET))]
    return rounds


def lost_share(
    copies: int, *, keys: int, lifetime_h: float, repair_h: float, hours: float, rng: np.random.Generator
) -> float:
    """Return the share of keys of which all copies were lost at once within `hours`.

    Nodes leave after an exponential lifetime; every `repair_h` the copies that are left make the others again.
    """
    dies = -np.expm1(-repair_h / lifetime_h)
    left = keys
    for _ in range(round(hours / repair_h)):
        alive = rng.binomial(copies, 1 - dies, left)
        left = int((alive > 0).sum())
    return 1 - left / keys


def _common_prefix(one: Ids, other: Ids) -> Counts:
    differing = one ^ other
    bits = np.zeros(len(differing), dtype=np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        high = differing >> np.uint64(step)
        is_high = high > 0
        bits[is_high] += step
        differing = np.where(is_high, high, differing)
    return np.where(differing > 0, _BITS - 1 - bits, _BITS)


def _range(ids: Ids, targets: Ids, prefix: Counts) -> tuple[Counts, Counts]:
    """Return the places of the ids that share so many bits with each target."""
    free = (_BITS - prefix).astype(np.uint64)
    mask = np.where(
        free >= _BITS, np.uint64(2**64 - 1), (np.uint64(1) << np.minimum(free, np.uint64(63))) - np.uint64(1)
    )
    low = targets & ~mask
    return np.searchsorted(ids, low, side="left"), np.searchsorted(ids, low | mask, side="right")
