"""Which nodes store what lies under a key: one pure function of the directory and the key (SPEC 7.3).

Senders, recipients and nodes compute it alike. Scores, ages and own observations never enter it: when each side filters
by what it has seen, nodes refuse puts and recipients look in the wrong place.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from restante.model.node_descriptor import NodeDescriptor, Role

COPIES: Final = 5
"""A sender puts to this many nodes at once."""
MOST_TRIED: Final = 10
"""A sender goes outward up to this place."""
COMPLETE_WITHIN: Final = 8
"""A node's silence counts only for keys of which it is among this many closest (SPEC 7.5)."""
RESPONSIBLE_WITHIN: Final = 16
"""A node takes puts and replicas only for keys of which it is among this many closest (SPEC 7.10)."""
ID_BITS: Final = 256
MOST_CACHED: Final = 10_000
SORTED_AT_ONCE: Final = 8
"""So few nodes with a common prefix are sorted, not divided further: two near ones may share a hundred bits."""


def is_valid(descriptor: NodeDescriptor, *, now_ms: int) -> bool:
    """Return whether the descriptor has not expired."""
    return now_ms < descriptor.expires_at_ms


class PlacementIndex:
    """Storage nodes sorted by id, so that the closest to a key are found without looking at all of them.

    It never changes; a new directory makes a new index. So the places of a key are cached.
    """

    __slots__ = ("_nodes", "_placed", "_positions")

    def __init__(self, nodes: Iterable[NodeDescriptor], *, now_ms: int) -> None:
        usable = (each for each in nodes if Role.STORAGE in each.roles and is_valid(each, now_ms=now_ms))
        self._nodes = sorted(usable, key=lambda node: node.position)
        self._positions = [node.position for node in self._nodes]
        self._placed: dict[bytes, list[NodeDescriptor]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def by_distance(self, key: bytes) -> Iterator[NodeDescriptor]:
        """Yield all storage nodes, closest first by XOR.

        Nodes that share more leading bits with the key are closer, and the sorted list holds each such group as one
        range. So the groups are visited from the longest shared prefix to the shortest.
        """
        target = int.from_bytes(key, "big")
        positions = self._positions
        ranges = [(0, len(positions))]
        for bits in range(1, ID_BITS + 1):
            low, high = ranges[-1]
            if high - low <= SORTED_AT_ONCE:
                break
            shift = ID_BITS - bits
            start = target >> shift << shift
            found = bisect_left(positions, start, low, high), bisect_left(positions, start + (1 << shift), low, high)
            ranges.append(found)
        inner_low = inner_high = ranges[-1][0]
        for low, high in reversed(ranges):
            group = self._nodes[low:inner_low] + self._nodes[inner_high:high]
            yield from sorted(group, key=lambda node: node.position ^ target)
            inner_low, inner_high = low, high

    def first_places(self, key: bytes) -> list[NodeDescriptor]:
        """Return the nodes that may take what lies under this key."""
        placed = self._placed.get(key)
        if placed is None:
            if len(self._placed) >= MOST_CACHED:
                self._placed.clear()
            placed = self._placed[key] = _walk_outward(self, key, RESPONSIBLE_WITHIN)
        return placed


def place(index: PlacementIndex, key: bytes, count: int = COPIES) -> list[NodeDescriptor]:
    """Return the first `count` nodes for a key: the closest, at most one of a family and of a network, then the skipped
    ones by distance. A larger count only appends."""
    return index.first_places(key)[:count] if count <= RESPONSIBLE_WITHIN else _walk_outward(index, key, count)


def _walk_outward(index: PlacementIndex, key: bytes, count: int) -> list[NodeDescriptor]:
    chosen: list[NodeDescriptor] = []
    skipped: list[NodeDescriptor] = []
    families: set[bytes] = set()
    networks: set[bytes] = set()
    for node in index.by_distance(key):
        if node.family in families or not networks.isdisjoint(node.networks):
            skipped.append(node)
            continue
        chosen.append(node)
        if len(chosen) == count:
            return chosen
        families.add(node.family)
        networks |= node.networks
    return (chosen + skipped)[:count]


def rank_of(index: PlacementIndex, key: bytes, node: NodeDescriptor, *, within: int) -> int | None:
    """Return the node's place for the key, from 0; None if it is not among the first `within`."""
    for rank, each in enumerate(place(index, key, within)):
        if each.position == node.position:
            return rank
    return None


def neighbours_of(index: PlacementIndex, own: NodeDescriptor) -> list[NodeDescriptor]:
    """Return the nodes that exchange copies with this one (SPEC 7.9): those closest to its id, where keys overlap.

    They are counted with regard to families and networks, as keys are placed, and without.
    """
    found: list[NodeDescriptor] = []
    families, networks = {own.family}, set(own.networks)
    apart = 0
    others = (each for each in index.by_distance(own.node_id) if each.position != own.position)
    for number, node in enumerate(others):
        is_apart = node.family not in families and networks.isdisjoint(node.networks)
        if is_apart or number < RESPONSIBLE_WITHIN:
            found.append(node)
        if is_apart:
            apart += 1
            families.add(node.family)
            networks |= node.networks
        if apart == RESPONSIBLE_WITHIN:
            break
    return found
