"""The Kademlia table of a node: 256 k-buckets of nodes that were reached by dialling (SPEC 7.1).

Check before add: a node enters only after a dial of ours succeeded. Ping before evict: a full bucket drops its least
recently seen node only if that one no longer answers. So a flood of new nodes replaces nobody who is alive.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from heapq import nsmallest
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.model.node_descriptor import NodeDescriptor

K: Final = 20
PER_NETWORK_IN_BUCKET: Final = 2
PER_NETWORK_IN_TABLE: Final = 3
MOST_CHECKS: Final = 64
"""Dials under way for new nodes. What is heard beyond that is heard again later."""
REFRESH_INTERVAL_MS: Final = 3_600_000


class Phase(StrEnum):
    ABSENT = "absent"
    CHECKING = "checking"
    """The host dials the node before it may enter."""
    LISTED = "listed"
    PINGED = "pinged"
    """Listed, and asked for a sign of life because a checked node wants its place."""


class Heard(NamedTuple):
    """A valid descriptor of the node was received."""


class Dialled(NamedTuple):
    """A dial of ours reached the node, and it proved its key."""


class DialFailed(NamedTuple):
    pass


class Seen(NamedTuple):
    """The node answered a request or a ping."""


class PingMissed(NamedTuple):
    pass


class Expired(NamedTuple):
    """The node's descriptor expired or was withdrawn."""


Event = Heard | Dialled | DialFailed | Seen | PingMissed | Expired


class Dial(NamedTuple):
    """Dial the node, then report `Dialled` or `DialFailed`."""

    node: NodeDescriptor


class Ping(NamedTuple):
    """Ping the node, then report `Seen` or `PingMissed`."""

    node: NodeDescriptor


Effect = Dial | Ping

_ABSENT: Final = frozenset({Phase.ABSENT})
_CHECKING: Final = frozenset({Phase.CHECKING})
_LISTED: Final = frozenset({Phase.LISTED})

TABLE: Final[Table[Phase]] = {
    Phase.ABSENT: {
        Heard: _ABSENT | _CHECKING,
        **dict.fromkeys((Dialled, DialFailed, Seen, PingMissed, Expired), _ABSENT),
    },
    Phase.CHECKING: {
        Heard: _CHECKING,
        # Without room the node waits outside while the least recently seen one is pinged.
        Dialled: _LISTED | _ABSENT,
        DialFailed: _ABSENT,
        Seen: _CHECKING,
        PingMissed: _CHECKING,
        Expired: _ABSENT,
    },
    Phase.LISTED: {
        **dict.fromkeys((Heard, Dialled, Seen), _LISTED),
        # One lost request is no reason to forget a node when nothing wants its place.
        **dict.fromkeys((DialFailed, PingMissed), _LISTED),
        Expired: _ABSENT,
    },
    Phase.PINGED: {
        Heard: frozenset({Phase.PINGED}),
        **dict.fromkeys((Dialled, Seen), _LISTED),
        **dict.fromkeys((DialFailed, PingMissed, Expired), _ABSENT),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLimits:
    """A private network lifts the limits per network (`mesh.network = "private"`)."""

    k: int = K
    per_network_in_bucket: int = PER_NETWORK_IN_BUCKET
    per_network_in_table: int = PER_NETWORK_IN_TABLE


class RoutingTable:
    """The table of the node at `own_position`. Buckets list their nodes from the least to the most recently seen."""

    __slots__ = ("_buckets", "_checking", "_limits", "_networks", "_own", "_pinged", "_waiting")

    def __init__(self, own_position: int, limits: TableLimits | None = None) -> None:
        self._own = own_position
        self._limits = limits or TableLimits()
        self._buckets: dict[int, list[NodeDescriptor]] = {}
        self._networks: dict[bytes, int] = {}
        self._checking: set[int] = set()
        self._pinged: set[int] = set()
        self._waiting: dict[int, NodeDescriptor] = {}
        """Per bucket one node that was dialled and found no room."""

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def __iter__(self) -> Iterator[NodeDescriptor]:
        for bucket in self._buckets.values():
            yield from bucket

    def phase_of(self, node: NodeDescriptor) -> Phase:
        if node.position in self._pinged:
            return Phase.PINGED
        if self.lists(node):
            return Phase.LISTED
        return Phase.CHECKING if node.position in self._checking else Phase.ABSENT

    def lists(self, node: NodeDescriptor) -> bool:
        """Return whether the node is in the table: a dial of ours reached it."""
        return self._index_in(self._bucket(node), node) is not None

    def step(self, node: NodeDescriptor, event: Event) -> tuple[Effect, ...]:
        phase = self.phase_of(node)
        following = legal_phases(TABLE, phase, event)
        effects = self._step(node, phase, event)
        check_phase(following, self.phase_of(node), event)
        return effects

    def closest(self, target: int, count: int) -> list[NodeDescriptor]:
        """Return the listed nodes closest to the target, for FIND_NODE."""
        return nsmallest(count, self, key=lambda node: node.position ^ target)

    def bucket_sizes(self) -> dict[int, int]:
        return {number: len(bucket) for number, bucket in self._buckets.items() if bucket}

    def _step(self, node: NodeDescriptor, phase: Phase, event: Event) -> tuple[Effect, ...]:
        match phase, event:
            case Phase.ABSENT, Heard():
                return self._consider(node)
            case Phase.CHECKING, Dialled():
                self._checking.discard(node.position)
                return self._admit(node)
            case Phase.CHECKING, DialFailed() | Expired():
                self._checking.discard(node.position)
            case ((Phase.LISTED | Phase.PINGED), Dialled() | Seen()):
                self._refresh(node)
            case ((Phase.LISTED | Phase.PINGED), Heard()):
                self._replace(node)
            case (Phase.LISTED, Expired()) | (Phase.PINGED, DialFailed() | PingMissed() | Expired()):
                return self._remove(node)
            case _:
                pass
        return ()

    def _consider(self, node: NodeDescriptor) -> tuple[Effect, ...]:
        """Dial a node that could enter: its bucket has room, or somebody in it can be pinged."""
        if node.position == self._own or len(self._checking) >= MOST_CHECKS or not self._fits_network(node):
            return ()
        if len(self._bucket(node)) >= self._limits.k and self._number(node) in self._waiting:
            return ()
        self._checking.add(node.position)
        return (Dial(node),)

    def _admit(self, node: NodeDescriptor) -> tuple[Effect, ...]:
        if not self._fits_network(node):
            return ()
        bucket = self._bucket(node)
        if len(bucket) < self._limits.k:
            self._append(node)
            return ()
        self._waiting[self._number(node)] = node
        oldest = next((each for each in bucket if each.position not in self._pinged), None)
        if oldest is None or len(self._pinged & {each.position for each in bucket}) > 0:
            return ()
        self._pinged.add(oldest.position)
        return (Ping(oldest),)

    def _remove(self, node: NodeDescriptor) -> tuple[Effect, ...]:
        """Remove the node and let the one that waits for the bucket enter."""
        bucket = self._bucket(node)
        at = self._index_in(bucket, node)
        if at is not None:
            for network in bucket.pop(at).networks:
                self._networks[network] -= 1
                if not self._networks[network]:
                    del self._networks[network]
        self._pinged.discard(node.position)
        waiting = self._waiting.pop(self._number(node), None)
        if waiting is not None and waiting.position != node.position and self._fits_network(waiting):
            self._append(waiting)
        return ()

    def _refresh(self, node: NodeDescriptor) -> None:
        """Move the node to the end of its bucket. The node that waited for its place goes."""
        if node.position in self._pinged:
            self._pinged.discard(node.position)
            self._waiting.pop(self._number(node), None)
        self._replace(node)
        bucket = self._bucket(node)
        at = self._index_in(bucket, node)
        if at is not None:
            bucket.append(bucket.pop(at))

    def _replace(self, node: NodeDescriptor) -> None:
        """Keep the newest descriptor of a listed node."""
        bucket = self._bucket(node)
        at = self._index_in(bucket, node)
        if at is None or bucket[at].issued_at_ms >= node.issued_at_ms:
            return
        if bucket[at].networks == node.networks:
            bucket[at] = node
        # A node that moved to another network is dialled there first: it leaves and is heard again.

    def _append(self, node: NodeDescriptor) -> None:
        self._buckets.setdefault(self._number(node), []).append(node)
        for network in node.networks:
            self._networks[network] = self._networks.get(network, 0) + 1

    def _fits_network(self, node: NodeDescriptor) -> bool:
        bucket = self._bucket(node)
        for network in node.networks:
            if self._networks.get(network, 0) >= self._limits.per_network_in_table:
                return False
            if sum(network in each.networks for each in bucket) >= self._limits.per_network_in_bucket:
                return False
        return True

    def _number(self, node: NodeDescriptor) -> int:
        """Return which bucket the node belongs to: the position of the highest bit in which the ids differ."""
        return (node.position ^ self._own).bit_length()

    def _bucket(self, node: NodeDescriptor) -> list[NodeDescriptor]:
        return self._buckets.get(self._number(node), [])

    @staticmethod
    def _index_in(bucket: list[NodeDescriptor], node: NodeDescriptor) -> int | None:
        for at, each in enumerate(bucket):
            if each.position == node.position:
                return at
        return None
