"""When copies are made again, which first and how fast (SPEC 7.9)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from restante.model.ids import InboxKey, NodeId, PayloadHash

PING_INTERVAL_MS: Final = 60_000
MISSES_UNTIL_REPAIR: Final = 2
BYTES_PER_S: Final = 4_000_000
ROUND_AFTER_BUCKET_MS: Final = 900_000
"""A node runs a round for the keys of a bucket this long after its end, before first reads of it count. A sender whose
directory has gaps stores with nodes farther out; the closest ones, whose silence counts, fetch the mail then."""
LEAVE_WITHIN_MS: Final = 300_000
UNMEASURED: Final = 0.0
"""The score of a node without a measurement. A node fetches from such nodes last."""

Node = TypeVar("Node", bound=NodeId)


class MissingCopy(NamedTuple):
    """A blob that this node should hold, and how many neighbours hold it."""

    inbox_key: InboxKey
    payload_hash: PayloadHash
    copies: int


def repair_order(missing: Iterable[MissingCopy]) -> list[MissingCopy]:
    """Return what to fetch, fewest copies first: the next crash would lose those.

    Otherwise the order stays that of the neighbours' lists, the order of storing: the copy will be listed in it, too,
    and a recipient can put only so many messages in order (SPEC 9.4).
    """
    return sorted(missing, key=lambda each: each.copies)


def needs_repair(missed_pings: int) -> bool:
    """Return whether a neighbour counts as dead."""
    return missed_pings >= MISSES_UNTIL_REPAIR


def earliest_next_ms(*, now_ms: int, transferred_bytes: int) -> int:
    """Return when the next transfer may start so that repair stays at 4 MB/s."""
    return now_ms + -(-transferred_bytes * 1000 // BYTES_PER_S)


def best_first(nodes: Sequence[Node], scores: Mapping[NodeId, float]) -> list[Node]:
    """Return the nodes by score, best first; nodes with equal scores keep their order (SPEC 7.3).

    Recipients ask for bodies in this order. It never filters: every node stays in the list.
    """
    return sorted(nodes, key=lambda node: -scores.get(node, UNMEASURED))
