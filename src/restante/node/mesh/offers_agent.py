"""Offers of mail that a sender stored farther out, to the five closest nodes and from others (decision 0038).

Hosts `core.replication.offers` and `core.replication.offered_keys`. What is offered here is fetched as in a round.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from restante.core.replication import sync_round
from restante.core.replication.offered_keys import OfferedKeys
from restante.core.replication.offers import Answered, Ended, Offer, Offers
from restante.model.errors import StoreUnusable
from restante.model.ids import InboxKey, NodeId
from restante.model.node_descriptor import NodeDescriptor, Role
from restante.node.mesh.peer_data import failing_the_peer
from restante.node.mesh.replication_agent import MOST_LISTED, Listed, Lists, ReplicationAgent, RunningRound
from restante.policy.mesh.placement import COMPLETE_WITHIN, COPIES, RESPONSIBLE_WITHIN, place
from restante.policy.mesh.repair import ms_until_round, offer_pauses
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.event_wait import set_or_after
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.frames.mesh_replication import KeySummary

OFFER_WITHIN_S: Final = 30.0
LISTS_WITHIN_S: Final = 10.0
"""How long a node may take for its lists of what it offered. Others that offered meanwhile wait for it."""
FETCH_WITHIN_S: Final = 60.0
SHORTEST_PAUSE_S: Final = 0.01
"""Between two looks at what waits, however many messages and offers come."""


@dataclass(slots=True)
class OffersAgent:
    """Work runs beside the agent's other work, and only while something waits."""

    replication: ReplicationAgent
    ping_interval_ms: int
    machine: Offers = field(init=False)
    waiting: OfferedKeys = field(default_factory=OfferedKeys)
    """What others offer."""
    _is_offering: bool = False
    _is_fetching: bool = False
    _has_news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.machine = Offers(offer_pauses(self.ping_interval_ms))

    def put(self, keys: set[InboxKey]) -> None:
        """Senders stored mail under these keys: offer those that others are closer to."""
        view, now_ms = self.replication.service.view, _steady_ms()
        until_ms = now_ms + ms_until_round(view.now_ms())
        for key in keys:
            five = [each.node_id for each in place(view.index(), key, COPIES)]
            if Role.STORAGE in view.own.roles and view.own.node_id not in five:
                self.machine.stored(key, five, until_ms=until_ms, now_ms=now_ms)
        self._continue()

    def offered(self, node: NodeDescriptor, summary: KeySummary) -> None:
        """Fetch what a node offers, if both are among the closest and they do not hold the same."""
        view, key = self.replication.service.view, summary.inbox_key
        closest = [each.node_id for each in place(view.index(), key, RESPONSIBLE_WITHIN)]
        is_ours = view.own.node_id in closest[:COMPLETE_WITHIN] and node.node_id in closest
        if not is_ours or self._summaries(key) in ([summary], None):
            return
        self.waiting.add(node.node_id, key)
        if not self._is_fetching:
            self._is_fetching = True
            self.replication.start(self._fetch_offered())

    def _summaries(self, key: InboxKey) -> list[KeySummary] | None:
        """Return what this node knows under a key; None if the store cannot be read now."""
        try:
            return self.replication.service.store.summaries(key, key, limit=1)
        except StoreUnusable:
            return None

    async def _offer_what_waits(self) -> None:
        try:
            while (wait_ms := self._take_turns()) is not None:
                self._has_news.clear()
                await set_or_after(self._has_news, wait_ms / 1_000)
                await asyncio.sleep(SHORTEST_PAUSE_S)
        finally:
            self._is_offering = False

    def _take_turns(self) -> int | None:
        now_ms = _steady_ms()
        for offer in self.machine.take_turns(now_ms):
            self.replication.start(self._offer(offer))
        return self.machine.wait_ms(now_ms)

    def _continue(self) -> None:
        self._has_news.set()
        if not self._is_offering and self.machine.wait_ms(_steady_ms()) is not None:
            self._is_offering = True
            self.replication.start(self._offer_what_waits())

    async def _offer(self, offer: Offer) -> None:
        was_answered = False
        try:
            async with asyncio.timeout(OFFER_WITHIN_S):
                with failing_the_peer():
                    was_answered = await self._name_keys(offer)
        except (AttemptFailed, TimeoutError):
            pass  # it is tried again
        self.machine.step(offer.node, Ended(was_answered), now_ms=_steady_ms())
        self._continue()

    async def _name_keys(self, offer: Offer) -> bool:
        """Offer each key; return whether the node can be asked at all."""
        peer = self.replication.service.view.find_valid(offer.node)
        if peer is None:
            return False
        connection = await self.replication.pool.to(peer)
        for key in offer.keys:
            holds_all = await self._name_key(connection, key)
            self.machine.step(offer.node, Answered(key, holds_all), now_ms=_steady_ms())
        return True

    async def _name_key(self, connection: MeshConnection, key: InboxKey) -> bool:
        """Return whether the node holds all that this one does. What it fetches then, it asks for itself."""
        store, view = self.replication.service.store, self.replication.service.view
        summaries = store.summaries(key, key, limit=1)
        if not summaries:
            return True  # nothing is left of it here
        lists, _ = await connection.have(key, key, summaries)
        own = set(store.live_hashes(key, now_ms=view.now_ms()))
        return key not in lists or own <= lists[key].keys()

    async def _fetch_offered(self) -> None:
        try:
            while taken := self.waiting.take():
                await self._fetch(taken)
                await asyncio.sleep(SHORTEST_PAUSE_S)
        finally:
            self._is_fetching = False

    async def _fetch(self, taken: dict[NodeId, tuple[InboxKey, ...]]) -> None:
        """Run a round for these keys with the nodes that offered them."""
        found = [self.replication.service.view.find_valid(node) for node in taken]
        peers = [each for each in found if each is not None]

        async def lists_of(peer: NodeDescriptor) -> Listed | None:
            return await self._lists_of(peer, taken[peer.node_id])

        def finished(_finish: sync_round.Finish) -> None:
            """It says nothing about other keys: only rounds with all neighbours make this node's silence count."""

        await RunningRound(self.replication, peers, lists_of, finished).run(within_s=FETCH_WITHIN_S)

    async def _lists_of(self, peer: NodeDescriptor, keys: Sequence[InboxKey]) -> Listed | None:
        """Return what the peer lists and this node lacks of these keys, as far as it answers in time."""
        lists: Lists = {}
        taken = 0
        try:
            async with asyncio.timeout(LISTS_WITHIN_S):
                with failing_the_peer():
                    connection = await self.replication.pool.to(peer)
                    for key in keys:
                        # It names no key, so it is no offer.
                        listed, _ = await connection.have(key, key, ())
                        wanted = await self.replication.wanted_of(listed)
                        lists |= wanted
                        taken += sum(map(len, wanted.values()))
                        if taken >= MOST_LISTED:
                            break
        except (AttemptFailed, TimeoutError):
            return Listed(lists, is_whole=False) if lists else None
        return Listed(lists, is_whole=True)


def _steady_ms() -> int:
    """Return the time of a clock that never jumps."""
    return round(asyncio.get_running_loop().time() * 1_000)
