"""The mesh family of a node: who is subscribed, and what its connections share (SPEC 7.4, 7.12)."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from restante.model.ids import InboxKey, PayloadHash
from restante.model.node_descriptor import NodeDescriptor
from restante.model.sources import Source
from restante.node.frame_family import Peer
from restante.node.mesh.connection import MeshFamilyConnection
from restante.node.mesh.counters import MeshCounters
from restante.node.mesh.turns import InTurns, Turns
from restante.node.mesh.view import MeshView
from restante.node.mesh.writes import MeshWrites
from restante.policy.connection_limits import RelayLimits
from restante.policy.quota import MailboxQuota
from restante.runtime.sqlite.mesh.records import SqliteMeshRecords
from restante.runtime.sqlite.mesh.store import DamagedMeshBlob, SqliteMeshStore
from restante.wire.frames.mesh import MESH_TYPES
from restante.wire.frames.mesh_replication import KeySummary


class MeshFamily:
    """Satisfies `node.frame_family.FrameFamily`.

    `on_descriptor` gets what is published here, and by which source, `on_damaged` of blobs to fetch again. `on_put`
    gets keys under which senders stored mail, `on_offer` what a node offers.
    """

    frame_types = frozenset(MESH_TYPES)

    def __init__(
        self,
        view: MeshView,
        store: SqliteMeshStore,
        records: SqliteMeshRecords,
        writes: MeshWrites,
        *,
        quota: MailboxQuota,
        limits: RelayLimits,
    ) -> None:
        self.view = view
        self.store = store
        self.records = records
        self.writes = writes
        self.quota = quota
        self.counters = MeshCounters()
        self.on_descriptor: Callable[[NodeDescriptor, Source], None] = lambda _descriptor, _source: None
        self.on_damaged: Callable[[list[DamagedMeshBlob]], None] = lambda _damaged: None
        self.on_put: Callable[[set[InboxKey]], None] = lambda _keys: None
        self.on_offer: Callable[[NodeDescriptor, KeySummary], None] = lambda _node, _summary: None
        self._max_subscriptions = limits.max_subscriptions_per_mailbox
        self._turns = Turns(limits)
        writes.on_stored = self._put
        self._subscribers: defaultdict[InboxKey, set[MeshFamilyConnection]] = defaultdict(set)

    def connect(self, peer: Peer) -> InTurns:
        return InTurns(MeshFamilyConnection(self, peer), peer, self._turns)

    @property
    def subscriptions(self) -> int:
        return sum(map(len, self._subscribers.values()))

    def stored(self, keys: set[InboxKey], blobs: int) -> None:
        """Mail is on disk: push it to who is subscribed."""
        self.counters.puts_stored += blobs
        for key in self._subscribers.keys() & keys:
            for connection in self._subscribers[key]:
                connection.serving.has_news(key)

    def _put(self, keys: set[InboxKey], blobs: int) -> None:
        self.stored(keys, blobs)
        self.on_put(keys)

    def offered(self, node: NodeDescriptor, summary: KeySummary) -> None:
        self.on_offer(node, summary)

    def deleted(self, key: InboxKey, hashes: list[PayloadHash]) -> None:
        self.counters.blobs_deleted += len(hashes)
        for connection in self._subscribers.get(key, ()):
            connection.serving.was_read(hashes)

    def subscribe(self, key: InboxKey, connection: "MeshFamilyConnection") -> bool:
        subscribers = self._subscribers[key]
        if connection not in subscribers and len(subscribers) >= self._max_subscriptions:
            return False
        subscribers.add(connection)
        return True

    def unsubscribe(self, connection: "MeshFamilyConnection", keys: Sequence[InboxKey]) -> None:
        for key in keys:
            self._subscribers[key].discard(connection)
            if not self._subscribers[key]:
                del self._subscribers[key]

    def report_damaged(self, damaged: list[DamagedMeshBlob]) -> None:
        self.counters.blobs_damaged += len(damaged)
        self.on_damaged(damaged)

    def heard(self, descriptor: NodeDescriptor, source: Source) -> None:
        self.on_descriptor(descriptor, source)

    def served(self, blobs: int) -> None:
        self.counters.blobs_served += blobs
