"""Simulated replication: what node/mesh/replication_agent does, over the same machines.

Each node looks at its neighbours once a minute and runs an anti-entropy round with those that live when something
changed. Pings that are answered change nothing, so they are not sent: whether a neighbour could be reached is enough.
"""

from restante.core.replication import neighbours, serving, sync_round
from restante.core.replication.neighbours import Neighbour, PingAnswered, PingMissed
from restante.core.replication.serving import SyncFinished
from restante.core.replication.sync_round import Blob, missing_blobs
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.placement import COMPLETE_WITHIN, PlacementIndex, neighbours_of, rank_of
from restante.policy.mesh.repair import PING_INTERVAL_MS, ROUND_AFTER_BUCKET_MS
from restante.policy.mesh.time_buckets import bucket_at, bucket_end_ms
from restante.testing.mesh_simulation.network_map import NetworkMap
from restante.testing.mesh_simulation.node import SimulatedNode


class Replicator:
    """One life of one node: from its start until its crash."""

    def __init__(self, network: NetworkMap, node: SimulatedNode, *, has_synced: bool = False) -> None:
        self.network = network
        self.node = node
        self._watched: dict[NodeId, Neighbour] = {}
        self._index: PlacementIndex | None = None
        self._last_bucket = bucket_at(self._now_ms() - ROUND_AFTER_BUCKET_MS)
        self._is_running = False
        self._is_wanted = False
        self._lives = node.lives
        if has_synced:
            self._meet_neighbours()
            self._is_wanted = False

    def start(self, delay_ms: float) -> None:
        self.network.engine.after(delay_ms, self._look_around)

    def _look_around(self) -> None:
        """Do what a node does once a minute (SPEC 7.9)."""
        if not self.node.is_alive or self.node.lives != self._lives:
            return
        self._meet_neighbours()
        self._ping_neighbours()
        if self._now_ms() >= bucket_end_ms(self._last_bucket) + ROUND_AFTER_BUCKET_MS:
            self._last_bucket = bucket_at(self._now_ms() - ROUND_AFTER_BUCKET_MS)
            self._is_wanted = True
        if self.node.serving.phase is serving.Phase.SYNCING:
            self._is_wanted = True
        self._run_if_wanted()
        self.network.engine.after(PING_INTERVAL_MS, self._look_around)

    def _now_ms(self) -> int:
        return self.network.engine.now_ms + self.node.clock_error_ms

    def _meet_neighbours(self) -> None:
        index = self.network.view_of(self.node)
        if index is self._index:
            return
        self._index = index
        current = dict.fromkeys(each.node_id for each in neighbours_of(index, self.node.descriptor))
        for node_id in [each for each in self._watched if each not in current]:
            self._step(node_id, neighbours.Left())
            del self._watched[node_id]
        for node_id in current:
            if node_id not in self._watched:
                self._watched[node_id], effects = neighbours.meet(node_id)
                self._execute(effects)

    def _ping_neighbours(self) -> None:
        engine, nodes, own = self.network.engine, self.network.nodes, self.node
        for node_id, watched in list(self._watched.items()):
            answers = engine.can_reach(own, nodes[node_id])
            # An answer of a living neighbour and the silence of a dead one change nothing.
            if watched.phase is not (neighbours.Phase.ALIVE if answers else neighbours.Phase.DEAD):
                self._step(node_id, PingAnswered() if answers else PingMissed())

    def _step(self, node_id: NodeId, event: neighbours.Event) -> None:
        self._watched[node_id], effects = neighbours.step(self._watched[node_id], event)
        self._execute(effects)

    def _execute(self, effects: tuple[neighbours.Effect, ...]) -> None:
        for effect in effects:
            self.network.result.repairs += isinstance(effect, neighbours.Repair)
            self._is_wanted = True

    def _run_if_wanted(self) -> None:
        """One round runs at a time; what wants another one meanwhile gets it afterwards."""
        if self._is_wanted and not self._is_running:
            self._is_wanted, self._is_running = False, True
            living = [node for node, each in self._watched.items() if each.phase is not neighbours.Phase.DEAD]
            self.network.result.rounds += 1
            _Round(self, living).begin()

    def finished(self, finish: sync_round.Finish) -> None:
        if self.node.lives != self._lives:
            return
        self._is_running = False
        event = SyncFinished(finish.answered, finish.asked)
        self.node.serving, _ = serving.step(self.node.serving, event, now_ms=self._now_ms())
        self.network.result.copied += finish.fetched
        self._run_if_wanted()


class _Round:
    """One anti-entropy round, over core/replication/sync_round."""

    def __init__(self, owner: Replicator, peers: list[NodeId]) -> None:
        self._owner = owner
        self._network = owner.network
        self._node = owner.node
        self._state, self._first = sync_round.start(peers)

    def begin(self) -> None:
        self._execute(self._first)

    def _step(self, event: sync_round.Event) -> None:
        self._state, effects = sync_round.step(self._state, event)
        self._execute(effects)

    def _execute(self, effects: tuple[sync_round.Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case sync_round.SendHave(peer):
                    self._have(peer)
                case sync_round.SendWant(peer, blob):
                    self._want(peer, blob)
                case sync_round.Finish():
                    self._owner.finished(effect)

    def _have(self, peer_id: NodeId) -> None:
        peer = self._network.nodes[peer_id]

        def answered(lists: dict[InboxKey, tuple[PayloadHash, ...]]) -> None:
            self._step(sync_round.ListsReceived(peer_id, self._missing(lists)))

        self._network.engine.request(
            self._node,
            peer,
            lambda: peer.lists_that_differ(self._node),
            answered,
            lambda: self._step(sync_round.NodeLost(peer_id)),
        )

    def _missing(self, lists: dict[InboxKey, tuple[PayloadHash, ...]]) -> tuple[Blob, ...]:
        """Return what the peer holds and this node should."""
        if not lists:
            return ()
        index, own = self._network.view_of(self._node), self._node
        ours = {
            key: hashes
            for key, hashes in lists.items()
            if rank_of(index, key, own.descriptor, within=COMPLETE_WITHIN) is not None
        }
        return missing_blobs(ours, {key: own.knows(key) for key in ours})

    def _want(self, peer_id: NodeId, blob: Blob) -> None:
        peer = self._network.nodes[peer_id]

        def answered(is_true: bool) -> None:
            bucket = self._network.keys[blob.inbox_key]
            if is_true and self._node.take_block(
                self._network.view_of(self._node), *blob, bucket=bucket, now_ms=self._network.engine.now_ms
            ):
                self._step(sync_round.BlockStored(blob))
            else:
                self._step(sync_round.BlockFailed(peer_id, blob, was_answered=is_true))

        self._network.engine.request(
            self._node,
            peer,
            lambda: peer.sends_true_body(*blob),
            answered,
            lambda: self._step(sync_round.NodeLost(peer_id)),
        )
