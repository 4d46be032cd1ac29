"""Simulated replication: deaths are noticed after two pings, and the neighbours of the dead run rounds.

Pings that are answered change nothing, so they are not simulated one by one: only those that are missed.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from restante.core.replication import neighbours, serving, sync_round
from restante.core.replication.serving import SyncFinished
from restante.core.replication.sync_round import Blob, missing_blobs
from restante.model.ids import InboxKey, NodeId
from restante.policy.mesh.placement import COMPLETE_WITHIN, RESPONSIBLE_WITHIN, place
from restante.policy.mesh.repair import PING_INTERVAL_MS, needs_repair
from restante.testing.mesh_simulation.network_map import NetworkMap
from restante.testing.mesh_simulation.node import SimulatedNode

SYNC_RETRY_MS: Final = 30_000
_ID_BITS: Final = 256


class Replication:
    def __init__(self, network: NetworkMap) -> None:
        self._network = network

    def died(self, node: SimulatedNode) -> None:
        """Plan what the neighbours notice: the first missed ping comes within a minute, the second a minute later."""
        engine = self._network.engine
        first_ms = engine.dice.uniform(0, PING_INTERVAL_MS)
        watched = neighbours.meet(node.node_id)[0]
        engine.after(first_ms, self._missed, node, watched)

    def _missed(self, node: SimulatedNode, watched: neighbours.Neighbour) -> None:
        if node.is_alive:
            return
        after, effects = neighbours.step(watched, neighbours.PingMissed())
        if neighbours.Repair(node.node_id) in effects:
            self._network.result.repairs += 1
            self.spread(list(node.held))
        else:
            self._network.engine.after(PING_INTERVAL_MS, self._missed, node, after)

    def joined(self, node: SimulatedNode) -> None:
        """A node that starts syncs with its neighbours before its silence counts."""
        keys = [key for key in self._keys_near(node) if self._is_near(node, key)]
        near = self._neighbours_of(node)
        self._round(node, keys, peers=[each for each in near if not needs_repair(node.missed.get(each, 0))])

    def bucket_ended(self, bucket: int) -> None:
        """Nodes run a round for the keys of a bucket before its first reads count."""
        self.spread(
            [key for key, held_in in self._network.keys.items() if held_in == bucket], within=RESPONSIBLE_WITHIN
        )

    def healed(self) -> None:
        """After a partition the two sides exchange what the other one missed."""
        self.spread(list(self._network.keys))

    def spread(self, keys: Iterable[InboxKey], *, within: int = COMPLETE_WITHIN) -> None:
        """Let the eight closest nodes of each key, by their own directories, fetch what they lack and others of the
        first `within` have."""
        by_node: dict[NodeId, list[InboxKey]] = {}
        for key in keys:
            for side in (0, 1) if self._network.engine.is_partitioned else (0,):
                for each in place(self._network.directory.index(side, lag_ms=0), key, COMPLETE_WITHIN):
                    node = self._network.nodes[each.node_id]
                    if node.is_alive and (not self._network.engine.is_partitioned or node.side == side):
                        by_node.setdefault(each.node_id, []).append(key)
        for node_id, concerned in by_node.items():
            node = self._network.nodes[node_id]
            self._round(node, concerned, peers=self._peers(node, concerned, within))

    def _round(self, node: SimulatedNode, keys: list[InboxKey], *, peers: list[NodeId]) -> None:
        _Round(self, self._network, node, keys, peers).begin()

    def _peers(self, node: SimulatedNode, keys: list[InboxKey], within: int) -> list[NodeId]:
        index = self._network.view_of(node)
        found = dict.fromkeys(
            each.node_id for key in keys for each in place(index, key, within) if each is not node.descriptor
        )
        return [each for each in found if self._network.nodes[each].is_alive]

    def _neighbours_of(self, node: SimulatedNode) -> list[NodeId]:
        index = self._network.view_of(node)
        near: list[NodeId] = []
        for each in index.by_distance(node.node_id):
            if each is not node.descriptor:
                near.append(each.node_id)
            if len(near) == RESPONSIBLE_WITHIN:
                break
        return near

    def _is_near(self, node: SimulatedNode, key: InboxKey) -> bool:
        index = self._network.directory.index(node.side, lag_ms=0)
        return any(each is node.descriptor for each in place(index, key, COMPLETE_WITHIN))

    def _keys_near(self, node: SimulatedNode) -> list[InboxKey]:
        """Return the keys that share so many leading bits with the node that it can be among their closest."""
        living = max(1, sum(each.is_alive for each in self._network.nodes.values()))
        bits = max(0, living.bit_length() - 6)
        keys = sorted(self._network.keys)
        shift = _ID_BITS - bits
        low = node.descriptor.position >> shift << shift
        high = low + (1 << shift)
        start = bisect_left(keys, low.to_bytes(32, "big"))
        end = len(keys) if high >> _ID_BITS else bisect_left(keys, high.to_bytes(32, "big"))
        return keys[start:end]

    def synced(self, node: SimulatedNode, finish: sync_round.Finish) -> None:
        event = SyncFinished(finish.answered, finish.asked)
        node.serving, _ = serving.step(node.serving, event, now_ms=self._network.engine.now_ms)
        self._network.result.copied += finish.fetched
        if node.serving.phase is serving.Phase.SYNCING:
            self._network.engine.after(SYNC_RETRY_MS, self._sync_again, node)

    def _sync_again(self, node: SimulatedNode) -> None:
        if node.is_alive and node.serving.phase is serving.Phase.SYNCING:
            self.joined(node)


class _Round:
    """One anti-entropy round of one node, over core/replication/sync_round."""

    def __init__(
        self, owner: Replication, network: NetworkMap, node: SimulatedNode, keys: list[InboxKey], peers: list[NodeId]
    ) -> None:
        self._owner = owner
        self._network = network
        self._node = node
        self._keys = keys
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
                    self._owner.synced(self._node, effect)

    def _have(self, peer_id: NodeId) -> None:
        peer = self._network.nodes[peer_id]

        def handle() -> tuple[Blob, ...]:
            listed = {key: tuple(peer.held[key]) for key in self._keys if key in peer.held}
            return missing_blobs(listed, {key: self._node.knows(key) for key in listed})

        def answered(missing: tuple[Blob, ...]) -> None:
            self._node.missed.pop(peer_id, None)
            self._step(sync_round.ListsReceived(peer_id, missing))

        def failed() -> None:
            self._node.missed[peer_id] = self._node.missed.get(peer_id, 0) + 1
            self._step(sync_round.NodeLost(peer_id))

        self._network.engine.request(
            self._node,
            peer,
            handle,
            answered,
            failed,
        )

    def _want(self, peer_id: NodeId, blob: Blob) -> None:
        peer = self._network.nodes[peer_id]

        def answered(is_true: bool) -> None:
            bucket = self._network.keys[blob.inbox_key]
            if is_true and self._node.take_block(
                self._network.view_of(self._node), *blob, bucket=bucket, now_ms=self._network.engine.now_ms
            ):
                self._step(sync_round.BlockStored(blob))
            else:
                self._step(sync_round.BlockFailed(peer_id, blob))

        self._network.engine.request(
            self._node,
            peer,
            lambda: peer.sends_true_body(*blob),
            answered,
            lambda: self._step(sync_round.NodeLost(peer_id)),
        )
