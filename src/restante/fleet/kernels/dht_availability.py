"""How long stored copies last while nodes leave: each hour every copy is lost with the probability of the churn.

Repair restores the full number of copies at the end of each hour, if one is left. SPEC 7.9 repairs within minutes, so
that this is the pessimistic side. Nodes leave independently of each other.
"""

from typing import Any, Final

import numpy as np

COPIES: Final = (3, 5)


def surviving(blobs: int, *, copies: int, churn: float, hours: int, is_repaired: bool, seed: Any) -> Any:
    """Return for 0 to `hours` how many of the blobs have a copy left."""
    dice = np.random.default_rng(seed)
    left = np.full(blobs, copies)
    counts = [blobs]
    for _ in range(hours):
        left = dice.binomial(left, 1.0 - churn)
        counts.append(int(np.count_nonzero(left)))
        if is_repaired:
            left = np.where(left > 0, copies, 0)
    return np.array(counts, dtype=np.int64)
