"""How a node keeps copies: it watches its neighbours and runs anti-entropy rounds with them (SPEC 7.9).

The machines of `core.replication` decide; this host dials, asks, stores and waits. One round runs at a time; what asks
for another one meanwhile gets it afterwards.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from restante.core.mailbox import Keep
from restante.core.mesh_proofs.records import newer_record, verify_record
from restante.core.replication import neighbours, serving, sync_round
from restante.core.replication.responsibility import Take, check_block, check_record
from restante.core.replication.sync_round import Blob, missing_blobs
from restante.model.errors import StoreUnusable
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.model.node_descriptor import NodeDescriptor
from restante.node.mesh.directory_agent import DirectoryAgent
from restante.node.mesh.peer_data import failing_the_peer
from restante.node.mesh.peer_pool import PeerPool
from restante.node.mesh.service import MeshService
from restante.policy.mesh.placement import COMPLETE_WITHIN, is_valid, neighbours_of
from restante.policy.mesh.repair import LEAVE_WITHIN_MS, earliest_next_ms
from restante.policy.mesh.time_buckets import record_expires_at_ms
from restante.policy.quota import MailboxQuota
from restante.ports.commit_queue import CommitQueue
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.runtime.sqlite.mesh.repair_requests import requested_as_of_ms
from restante.runtime.sqlite.mesh.store import MeshKeep
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.envelope_parser import parse_envelope
from restante.wire.frames.mesh_replication import MAX_SUMMARIES, Block
from restante.wire.frames.mesh_storage import Record
from restante.wire.mesh_keys import record_key_of

LAST_KEY: Final = b"\xff" * 32
MOST_LISTED: Final = 65_536
"""What a round takes of the hashes that one neighbour lists and this node lacks. The rest is left for the next one."""
MOST_HELD: Final = 1_000_000
"""What a neighbour may list in all, also of keys that this node does not want, which differ in every round."""
COMPARE_WITHIN_S: Final = 120.0
"""How long a neighbour may take for its lists. One that takes longer counts as silent."""
ROUND_WITHIN_S: Final = 600.0
KEYS_AT_ONCE: Final = 64
"""Listed keys that are looked up before others have a turn."""
ENOUGH_COPIES: Final = 3
"""A leaving node goes when so many others, or all there are, hold each of its blobs."""

Lists = dict[InboxKey, dict[PayloadHash, None]]
"""What a neighbour holds of each key, in its order."""


class Copied(StrEnum):
    STORED = "stored"
    REFUSED = "refused"
    """It was sent, and this node does not store it."""
    GONE = "gone"
    """The neighbour no longer has it."""
    UNANSWERED = "unanswered"


@dataclass(slots=True)
class ReplicationAgent:
    """`start` runs a coroutine beside the others until the node stops."""

    service: MeshService
    directory: DirectoryAgent
    pool: PeerPool
    commits: CommitQueue
    quota: MailboxQuota
    start: Callable[[Coroutine[Any, Any, None]], None]
    watched: dict[NodeId, neighbours.Neighbour] = field(default_factory=dict)
    rounds: int = 0
    repairs: int = 0
    is_behind: bool = False
    """Whether the last round fetched something and left something: another one soon will fetch more."""
    _left: dict[NodeId, tuple[NodeDescriptor, int]] = field(default_factory=dict)
    """Nodes that withdrew and may still hand over what they hold, each with the time until which they do."""
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _transfer_at_ms: int = 0
    _requested_as_of_ms: int | None = None

    def request_round(self) -> None:
        self._wanted.set()

    def look_for_request(self) -> None:
        """Ask for a round if an action of the fleet was applied to the file since the last look (SPEC 13.6).

        The first look takes one of an earlier run, too: that run may have ended before its round.
        """
        with contextlib.suppress(StoreUnusable):
            requested = requested_as_of_ms(self.service.store.reader)
            if requested != self._requested_as_of_ms:
                self._requested_as_of_ms = requested
                self.request_round()

    async def run_rounds(self) -> None:
        """Run a round after each request for one."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.run_round()

    async def ping_neighbours(self) -> None:
        """Ping all neighbours once; start repair for those that missed two (SPEC 7.9)."""
        current = {each.node_id: each for each in self._neighbours()}
        for node_id in [each for each in self.watched if each not in current]:
            self._step(node_id, neighbours.Left())
            del self.watched[node_id]
        for node_id in current:
            if node_id not in self.watched:
                self.watched[node_id], effects = neighbours.meet(node_id)
                self._execute(effects)
        answered = await asyncio.gather(*map(self.directory.ping, current.values()))
        for node_id, is_alive in zip(current, answered, strict=True):
            if node_id in self.watched:
                self._step(node_id, neighbours.PingAnswered() if is_alive else neighbours.PingMissed())

    def changed(self, descriptor: NodeDescriptor) -> None:
        """A descriptor is new here. One that expires at once is of a node that leaves and hands over its blobs."""
        view = self.service.view
        if is_valid(descriptor, now_ms=view.now_ms()):
            self._left.pop(descriptor.node_id, None)
            return
        self._left[descriptor.node_id] = (descriptor, view.own_clock_ms() + LEAVE_WITHIN_MS)
        if descriptor.node_id in self.watched:
            self._step(descriptor.node_id, neighbours.Left())
        self.request_round()

    async def run_round(self) -> None:
        """Fetch what neighbours hold and this node lacks, of keys of which it is among the eight closest."""
        await RunningRound(self, self._peers(), self.lists_of, self.finished).run(within_s=ROUND_WITHIN_S)

    def finished(self, finish: sync_round.Finish) -> None:
        view = self.service.view
        self.rounds += 1
        self.is_behind = finish.leaves_some
        event = serving.SyncFinished(finish.answered, finish.asked)
        view.serving, _ = serving.step(view.serving, event, now_ms=view.now_ms())

    async def has_handed_over(self) -> bool:
        """Return whether enough neighbours hold each blob of this node. One that leaves as well takes nothing."""
        view, store = self.service.view, self.service.store
        own = {
            each.inbox_key: set(store.live_hashes(each.inbox_key, now_ms=view.now_ms()))
            for each in store.summaries(bytes(32), LAST_KEY, limit=1_000_000)
        }
        own = {key: hashes for key, hashes in own.items() if hashes}
        if not own:
            return True
        peers = [each for each in self._peers() if not self.is_leaver(each.node_id)]
        held: list[Lists] = []
        for answer in await asyncio.gather(*[self.lists_of(peer, compares=False) for peer in peers]):
            held += [answer.lists] if answer is not None and answer.is_whole else []
        needed = min(ENOUGH_COPIES, len(held))
        return all(
            sum(hashed in lists.get(key, ()) for lists in held) >= needed
            for key, hashes in own.items()
            for hashed in hashes
        )

    async def lists_of(self, peer: NodeDescriptor, *, compares: bool = True) -> "Listed | None":
        """Return what the peer holds and this node should, or all that it holds. None if the peer is silent."""
        try:
            async with asyncio.timeout(COMPARE_WITHIN_S):
                with failing_the_peer():
                    return await self._lists_of(peer, compares=compares)
        except (AttemptFailed, TimeoutError):
            return None

    async def _lists_of(self, peer: NodeDescriptor, *, compares: bool) -> "Listed":
        lists: Lists = {}
        low, listed, taken = bytes(32), 0, 0
        connection = await self.pool.to(peer)
        while listed < MOST_HELD and taken < MOST_LISTED:
            own = self.service.store.summaries(low, LAST_KEY, limit=MAX_SUMMARIES) if compares else []
            high = own[-1].inbox_key if len(own) == MAX_SUMMARIES else LAST_KEY
            some, through = await connection.have(low, high, own)
            listed += sum(map(len, some.values()))
            if compares:
                some = await self.wanted_of(some)
                taken += sum(map(len, some.values()))
            lists |= some
            if through == LAST_KEY:
                return Listed(lists, is_whole=taken <= MOST_LISTED)
            low = (int.from_bytes(through, "big") + 1).to_bytes(32, "big")
        return Listed(lists, is_whole=False)

    async def wanted_of(self, listed: Lists) -> Lists:
        """Return what this node should hold and does not know, live or deleted."""
        view, store, wanted = self.service.view, self.service.store, Lists()
        for number, (key, hashes) in enumerate(listed.items()):
            if number % KEYS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if hashes and view.rank(key, within=COMPLETE_WITHIN) is not None:
                missing = missing_blobs({key: hashes}, {key: store.known_hashes(key)})
                if missing:
                    wanted[key] = {each.payload_hash: None for each in missing}
        return wanted

    async def copy(self, peer: NodeDescriptor, blob: Blob) -> Copied:
        """Fetch one blob or record from a neighbour and store it."""
        await self._wait_for_rate()
        try:
            found = await self._ask_for(peer, blob)
        except ConnectionLost:  # the end of one connection fails every question on it, and says nothing of the blobs
            found = await self._ask_for(peer, blob)
        if found is None:  # its owner may have deleted it at all nodes meanwhile
            is_known = blob.payload_hash in self.service.store.known_hashes(blob.inbox_key)
            return Copied.STORED if is_known else Copied.GONE
        size_bytes = len(found.record if isinstance(found, Record) else found.envelope)
        now_ms = max(self._transfer_at_ms, _steady_ms())
        self._transfer_at_ms = earliest_next_ms(now_ms=now_ms, transferred_bytes=size_bytes)
        if isinstance(found, Record):
            is_here = await self._store_record(found.record, blob)
        else:
            is_here = await self._store_block(found, blob, peer.node_id)
        return Copied.STORED if is_here else Copied.REFUSED

    async def _ask_for(self, peer: NodeDescriptor, blob: Blob) -> Block | Record | None:
        connection: MeshConnection = await self.pool.to(peer)
        return await connection.want_copy(blob.inbox_key, blob.payload_hash)

    async def _wait_for_rate(self) -> None:
        """Keep repair at 4 MB/s."""
        wait_ms = self._transfer_at_ms - _steady_ms()
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1_000)

    async def _store_block(self, block: Block, blob: Blob, peer: NodeId) -> bool:
        view, now_ms = self.service.view, self.service.view.now_ms()
        verdict = check_block(view.index(), view.own, key=blob.inbox_key, bucket=block.bucket, now_ms=now_ms)
        _, expires_at_ms, sealed = parse_envelope(block.envelope)
        if verdict.take is not Take.ACCEPT or expires_at_ms <= now_ms:
            return False
        latest_ms = now_ms + self.quota.max_ttl_ms
        keep = Keep(blob.inbox_key, hash_sealed_bytes(sealed), min(expires_at_ms, latest_ms), block.envelope)
        put = MeshKeep(block.blinded, block.bucket, keep)
        store = partial(self.service.store.put_all, [put], quota=self.quota, now_ms=now_ms, repaired_from=peer)
        refused = (await self.commits.run(store))[0]
        if refused is None:
            self.service.family.counters.blobs_repaired += 1
            self.service.family.stored({blob.inbox_key}, 0)
        return refused is None

    async def _store_record(self, offered: bytes, asked: Blob) -> bool:
        record, view, records = verify_record(offered), self.service.view, self.service.records
        key, now_ms = record_key_of(record.blinded), view.now_ms()
        verdict = check_record(view.index(), view.own, key=key, period=record.period, now_ms=now_ms)
        if key != asked.inbox_key or verdict.take is not Take.ACCEPT:
            return False
        expires_at_ms = record_expires_at_ms(record.period)

        def keep_newest() -> bool:
            held = records.newest(key)
            newest = newer_record(held, offered)
            if newest == held:
                return True
            return records.put(key, newest, expires_at_ms=expires_at_ms, quota=self.quota, now_ms=now_ms) is None

        return await self.commits.run(keep_newest)

    def _neighbours(self) -> list[NodeDescriptor]:
        view = self.service.view
        return neighbours_of(view.index(), view.own)

    def _peers(self) -> list[NodeDescriptor]:
        """Return whom a round asks: neighbours that are not dead, and nodes that are about to leave."""
        now_ms = self.service.view.own_clock_ms()
        self._left = {node: (each, until) for node, (each, until) in self._left.items() if until > now_ms}
        dead = {node for node, each in self.watched.items() if each.phase is neighbours.Phase.DEAD}
        living = [each for each in self._neighbours() if each.node_id not in dead]
        leaving = [each for each, _ in self._left.values() if each.node_id not in {node.node_id for node in living}]
        return living + leaving

    def forget_leaver(self, node: NodeId) -> None:
        """A node that had withdrawn is gone: it is no longer asked."""
        self._left.pop(node, None)

    def is_leaver(self, node: NodeId) -> bool:
        return node in self._left

    def _step(self, node: NodeId, event: neighbours.Event) -> None:
        self.watched[node], effects = neighbours.step(self.watched[node], event)
        self._execute(effects)

    def _execute(self, effects: tuple[neighbours.Effect, ...]) -> None:
        for effect in effects:
            self.repairs += isinstance(effect, neighbours.Repair)
            self.request_round()


class Listed(NamedTuple):
    lists: Lists
    is_whole: bool
    """Whether the neighbour listed all that it holds or that differs."""


def _steady_ms() -> int:
    """Return the time of a clock that never jumps."""
    return round(asyncio.get_running_loop().time() * 1_000)


class RunningRound:
    """One round over `core.replication.sync_round`. `lists_of` returns what a peer holds and this node should."""

    def __init__(
        self,
        agent: ReplicationAgent,
        peers: list[NodeDescriptor],
        lists_of: Callable[[NodeDescriptor], Awaitable[Listed | None]],
        finished: Callable[[sync_round.Finish], None],
    ) -> None:
        self._agent = agent
        self._peers = {each.node_id: each for each in peers}
        self._lists_of = lists_of
        self._finished = finished
        self._done = asyncio.Event()
        self._state, self._first = sync_round.start(list(self._peers))

    async def run(self, *, within_s: float) -> None:
        self._execute(self._first)
        try:
            async with asyncio.timeout(within_s):
                await self._done.wait()
        except TimeoutError:
            self._step(sync_round.TimePassed())

    def _step(self, event: sync_round.Event) -> None:
        self._state, effects = sync_round.step(self._state, event)
        self._execute(effects)

    def _execute(self, effects: tuple[sync_round.Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case sync_round.SendHave(node):
                    self._agent.start(self._have(self._peers[node]))
                case sync_round.SendWant(node, blob):
                    self._agent.start(self._want(self._peers[node], blob))
                case sync_round.Finish():
                    self._finished(effect)
                    self._done.set()

    async def _have(self, peer: NodeDescriptor) -> None:
        try:
            with failing_the_peer():
                received = await self._missing(peer)
        except AttemptFailed:  # or the store cannot be read now
            received = None
        if received is None:
            if self._agent.is_leaver(peer.node_id):
                self._agent.forget_leaver(peer.node_id)
                self._step(sync_round.ListsReceived(peer.node_id, ()))  # gone, as it said
            else:
                self._step(sync_round.NodeLost(peer.node_id))
            return
        self._step(received)

    async def _missing(self, peer: NodeDescriptor) -> sync_round.ListsReceived | None:
        """Return what the peer holds and this node should; None if the peer is silent."""
        answer = await self._lists_of(peer)
        if answer is None:
            return None
        missing = missing_blobs(answer.lists, {})
        return sync_round.ListsReceived(peer.node_id, missing[:MOST_LISTED], answer.is_whole)

    async def _want(self, peer: NodeDescriptor, blob: Blob) -> None:
        try:
            with failing_the_peer():
                copied = await self._agent.copy(peer, blob)
        except AttemptFailed:
            copied = Copied.UNANSWERED
        if copied is Copied.STORED:
            self._step(sync_round.BlockStored(blob))
        else:
            was_answered = copied is not Copied.UNANSWERED
            self._step(sync_round.BlockFailed(peer.node_id, blob, was_answered=was_answered))
