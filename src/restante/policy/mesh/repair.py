"""When copies are made again, which first and how fast (SPEC 7.9)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.time_buckets import bucket_at, bucket_end_ms

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


class OfferPauses(NamedTuple):
    """How long a node waits before it offers mail to a closer one (decision 0038)."""

    collecting_ms: int
    """After the first message, so that those that follow share the offer."""
    shortest_ms: int
    """After an offer to a node that lacked something."""
    longest_ms: int
    """Pauses double up to this while a node is silent, or lacks nothing."""


def offer_pauses(ping_interval_ms: int) -> OfferPauses:
    """Return 2 s, 5 s and a minute, in proportion to the interval of pings."""
    return OfferPauses(
        collecting_ms=-(-ping_interval_ms // 30),
        shortest_ms=-(-ping_interval_ms // 12),
        longest_ms=ping_interval_ms,
    )


def ms_until_round(now_ms: int) -> int:
    """Return how long it takes until the round after the bucket's end brings what is stored now to the closest."""
    return bucket_end_ms(bucket_at(now_ms)) + ROUND_AFTER_BUCKET_MS - now_ms


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
