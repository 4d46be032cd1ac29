"""Simulated replication: what node/mesh/replication_agent does, over the same machines.

Each node looks at its neighbours once a minute and runs an anti-entropy round with those that live when something
changed. Pings that are answered change nothing, so they are not sent: whether a neighbour could be reached is enough.
"""

from collections.abc import Callable

from restante.core.replication import neighbours, serving, sync_round
from restante.core.replication.neighbours import Neighbour, PingAnswered, PingMissed
from restante.core.replication.offered_keys import OfferedKeys
from restante.core.replication.offers import Answered, Ended, Offer, Offers
from restante.core.replication.serving import SyncFinished
from restante.core.replication.sync_round import Blob, missing_blobs
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.placement import COMPLETE_WITHIN, COPIES, PlacementIndex, neighbours_of, place, rank_of
from restante.policy.mesh.repair import PING_INTERVAL_MS, ROUND_AFTER_BUCKET_MS, ms_until_round, offer_pauses
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
        self._offers = Offers(offer_pauses(PING_INTERVAL_MS))
        self._offered = OfferedKeys()
        self._is_fetching = False
        node.on_put, node.on_offer = self._put, self._hear_offer
        if has_synced:
            self._meet_neighbours()
            self._is_wanted = False

    def start(self, delay_ms: float) -> None:
        self.network.engine.after(delay_ms, self._look_around)

    def _look_around(self) -> None:
        """Do what a node does once a minute (SPEC 7.9)."""
        if not self._is_living:
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

    def _put(self, key: InboxKey) -> None:
        """A sender's mail lies here: offer it to the five closest nodes, as node/mesh/offers_agent does."""
        five = [each.node_id for each in place(self.network.view_of(self.node), key, COPIES)]
        if self.node.node_id not in five:
            now_ms = self.network.engine.now_ms
            self._offers.stored(key, five, until_ms=now_ms + ms_until_round(self._now_ms()), now_ms=now_ms)
            self._plan_offers()

    def _plan_offers(self) -> None:
        wait_ms = self._offers.wait_ms(self.network.engine.now_ms)
        if wait_ms is not None:
            self.network.engine.after(wait_ms, self._take_turns)

    def _take_turns(self) -> None:
        if self._is_living:
            for offer in self._offers.take_turns(self.network.engine.now_ms):
                self._offer(offer)

    def _offer(self, offer: Offer) -> None:
        engine, node = self.network.engine, self.network.nodes[offer.node]

        def ended(lacks_nothing: tuple[bool, ...] | None) -> None:
            for key, holds_all in zip(offer.keys, lacks_nothing or (), strict=False):
                self._offers.step(offer.node, Answered(key, holds_all), now_ms=engine.now_ms)
            self._offers.step(offer.node, Ended(lacks_nothing is not None), now_ms=engine.now_ms)
            self._plan_offers()

        engine.request(self.node, node, lambda: node.hear_offers(self.node, offer.keys), ended, lambda: ended(None))

    def _hear_offer(self, node_id: NodeId, key: InboxKey) -> None:
        if rank_of(self.network.view_of(self.node), key, self.node.descriptor, within=COMPLETE_WITHIN) is not None:
            self._offered.add(node_id, key)
            self._fetch_offered()

    def _fetch_offered(self) -> None:
        """One round for what was offered runs at a time; what is offered meanwhile is fetched afterwards."""
        if self._is_living and len(self._offered) and not self._is_fetching:
            self._is_fetching = True
            taken = self._offered.take()
            _Round(self, list(taken), self._fetched_offered, taken).begin()

    def _fetched_offered(self, finish: sync_round.Finish) -> None:
        self._is_fetching = False
        self.network.result.copied += finish.fetched
        self._fetch_offered()

    @property
    def _is_living(self) -> bool:
        return self.node.is_alive and self.node.lives == self._lives

    def _run_if_wanted(self) -> None:
        """One round runs at a time; what wants another one meanwhile gets it afterwards."""
        if self._is_wanted and not self._is_running:
            self._is_wanted, self._is_running = False, True
            living = [node for node, each in self._watched.items() if each.phase is not neighbours.Phase.DEAD]
            self.network.result.rounds += 1
            _Round(self, living, self.finished).begin()

    def finished(self, finish: sync_round.Finish) -> None:
        if self.node.lives != self._lives:
            return
        self._is_running = False
        event = SyncFinished(finish.answered, finish.asked)
        self.node.serving, _ = serving.step(self.node.serving, event, now_ms=self._now_ms())
        self.network.result.copied += finish.fetched
        self._run_if_wanted()


class _Round:
    """One anti-entropy round, over core/replication/sync_round, or one for the keys that each peer offered."""

    def __init__(
        self,
        owner: Replicator,
        peers: list[NodeId],
        finished: Callable[[sync_round.Finish], None],
        offered: dict[NodeId, tuple[InboxKey, ...]] | None = None,
    ) -> None:
        self._finished = finished
        self._offered = offered
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
                    self._finished(effect)

    def _have(self, peer_id: NodeId) -> None:
        peer = self._network.nodes[peer_id]

        def answered(lists: dict[InboxKey, tuple[PayloadHash, ...]]) -> None:
            self._step(sync_round.ListsReceived(peer_id, self._missing(lists)))

        self._network.engine.request(
            self._node,
            peer,
            lambda: self._lists_of(peer),
            answered,
            lambda: self._step(sync_round.NodeLost(peer_id)),
        )

    def _lists_of(self, peer: SimulatedNode) -> dict[InboxKey, tuple[PayloadHash, ...]]:
        if self._offered is None:
            return peer.lists_that_differ(self._node)
        return peer.lists_that_differ_of(self._node, self._offered[peer.node_id])

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
                self._network.copied(blob.inbox_key, self._node, blob.payload_hash)
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
