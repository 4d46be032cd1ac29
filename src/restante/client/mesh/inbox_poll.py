"""Reads one inbox from the mesh, all buckets that are due in one pass: hosts `core.mailbox_poll` (SPEC 7.4, 7.5).

Lists come from the five nodes of each bucket, batched by node; each body comes once, from one holder, verified by its
hash. Bodies go to receiving oldest bucket first, as they come; few wait in memory for older ones. The owner's DELETE
follows once they are on disk.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from restante.client.mesh.connections import CircuitBroke
from restante.client.mesh.evidence import Accusation, accuse
from restante.client.mesh.inbox_nodes import InboxNodes, ListedBucket
from restante.client.mesh.receiving import Receiving
from restante.core.mailbox_poll import buckets as bucket_states
from restante.core.mailbox_poll import reading
from restante.core.mailbox_poll.buckets import Bucket, ReadFinished
from restante.core.mailbox_poll.full_sync import MOST_ENTRIES, BodyBudget, OldestFirst
from restante.core.mailbox_poll.reading import (
    ENOUGH_LISTS,
    AskList,
    BodiesReceived,
    Event,
    FetchBodies,
    Finish,
    ListReceived,
    ListsOverdue,
    NodeSilent,
    NotAsked,
    Read,
)
from restante.model.ids import NodeId, PayloadHash
from restante.policy.mesh.polling import LISTS_WAIT_MS, MOST_UNSENT, TRUSTED_PUSHES, poll_interval_ms
from restante.policy.mesh.repair import best_first
from restante.policy.mesh.time_buckets import current_buckets, is_old
from restante.ports.mesh_connection import MAX_WANTED_AT_ONCE
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.transport.mesh_connection import AnswerForged

Reports = list[tuple[int, Event]]


@dataclass(slots=True)
class _Came:
    """What came of one bucket. The same sealed bytes may lie in two: senders store again after a day (SPEC 3.14)."""

    bodies: dict[PayloadHash, bytes] = field(default_factory=dict)
    handed_over: set[PayloadHash] = field(default_factory=set)
    first_seen: set[PayloadHash] = field(default_factory=set)


@dataclass(slots=True)
class _Pass:
    """One pass over all due buckets."""

    began_at_ms: int
    storage_nodes: int
    was_pushed_to: bool
    was_subscribed: bool
    order: OldestFirst
    reads: dict[int, Read] = field(default_factory=dict)
    tasks: set[asyncio.Task[Reports]] = field(default_factory=set)
    to_list: dict[NodeId, list[int]] = field(default_factory=dict)
    to_fetch: dict[int, deque[tuple[NodeId, tuple[PayloadHash, ...]]]] = field(default_factory=dict)
    budget: BodyBudget = field(default_factory=BodyBudget)
    came: defaultdict[int, _Came] = field(default_factory=lambda: defaultdict(_Came))
    listed: dict[int, dict[NodeId, ListedBucket]] = field(default_factory=dict)
    altered_by: dict[int, list[tuple[NodeId, PayloadHash]]] = field(default_factory=dict)
    unsent: Counter[NodeId] = field(default_factory=Counter)
    """Requests for bodies that a node had listed and did not send."""
    finished: dict[int, Finish] = field(default_factory=dict)
    released: list[int] = field(default_factory=list)
    has_lists: bool = False
    failed: AttemptFailed | None = None
    """Why a node sent no list."""


class InboxPoll:
    """Which buckets of one inbox are read when."""

    def __init__(
        self,
        nodes: InboxNodes,
        receiving: Receiving,
        *,
        buckets: Mapping[int, Bucket] | None = None,
        since: int | None = None,
        accuse: Callable[[list[Accusation]], Awaitable[None]],
        interval_ms: int | None = None,
    ) -> None:
        """`buckets` is what earlier runs left; `since` the first bucket that can have mail, None for all of 30 days.

        `accuse` journals what nodes signed that hid or altered mail. `interval_ms` is the time between two reads; None:
        it follows from whether nodes push.
        """
        self._nodes = nodes
        self._directory = nodes.directory
        self._receiving = receiving
        self.buckets = bucket_states.after_restart(buckets or {}, now_ms=nodes.directory.now_ms())
        self._since = since
        self._accuse = accuse
        self._interval_ms = interval_ms
        self._passes_unpushed = 0
        self.failure: AttemptFailed | None = None
        """Why the last read got no list of any node; None if it got one."""
        self._late: set[asyncio.Task[Reports]] = set()
        """Requests for lists that no read waits for any more. They go on: they also subscribe."""

    async def close(self) -> None:
        await _end(self._late)

    @property
    def interval_ms(self) -> int:
        """The time until a bucket that gets mail now is read again."""
        return self._interval(is_subscribed=self.is_subscribed)

    @property
    def is_subscribed(self) -> bool:
        """Whether enough nodes push new mail of each current bucket."""
        return self._is_pushed_by(bucket_states.needed_answers(self._directory.storage_nodes()))

    @property
    def _is_pushed_to(self) -> bool:
        """Whether so many nodes push that little can be stored unnoticed."""
        return self._is_pushed_by(min(TRUSTED_PUSHES, self._directory.storage_nodes()))

    def _is_pushed_by(self, needed: int) -> bool:
        current = self.buckets.keys() & current_buckets(self._directory.now_ms())
        return all(self._nodes.subscriptions(each) >= needed for each in current)

    def _unpushed_now(self) -> int:
        return 0 if self.is_subscribed else self._passes_unpushed + 1

    def next_read_at_ms(self) -> int | None:
        """Return when the next bucket is due; None if there is none."""
        return min(
            (each.next_read_at_ms for each in self.buckets.values() if each.phase is not bucket_states.Phase.FINAL),
            default=None,
        )

    async def poll(self, *, scores: Mapping[NodeId, float] = MappingProxyType({})) -> list[Bucket]:
        """Read every bucket that is due; return those that were, with their new state.

        `scores` order whom a body comes from among the nodes that list it (SPEC 7.3).
        Raises `MeshUnknown` if no node is known, and what receiving raises; failures of nodes are part of a read.
        """
        now_ms = self._directory.now_ms()
        self.buckets = bucket_states.with_current(self.buckets, now_ms=now_ms, since=self._since)
        numbers = bucket_states.due(self.buckets, now_ms=now_ms)
        if not numbers:
            return []
        if self._is_pushed_to:  # nodes push what is newest, and little that is older waits
            return await self._read(numbers, now_ms, scores)
        async with self._receiving.holding_pushed():
            return await self._read(numbers, now_ms, scores)

    async def _read(self, numbers: list[int], now_ms: int, scores: Mapping[NodeId, float]) -> list[Bucket]:
        storage_nodes = self._directory.storage_nodes()
        one = _Pass(now_ms, storage_nodes, self._is_pushed_to, self.is_subscribed, OldestFirst(numbers))
        known = frozenset(self._receiving.known)
        for number in numbers:
            order = [each.node_id for each in await self._directory.find(self._nodes.key(number))]
            one.reads[number], effects = reading.start(order, ranked=best_first(order, scores), known=known)
            self._plan(one, number, effects)
        try:
            await self._run(one)
        except BaseException:
            await _end(one.tasks)
            raise
        if one.has_lists or not one.was_pushed_to:  # else it may have been cut short, and the next read decides
            self.failure = None if one.has_lists else one.failed
        for task in one.tasks:
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        self._passes_unpushed = self._unpushed_now()
        return [self.buckets[each] for each in one.released]

    async def _run(self, one: _Pass) -> None:
        now_s = asyncio.get_running_loop().time
        overdue_s = now_s() + LISTS_WAIT_MS / 1_000
        while True:
            self._start_lists(one)
            await self._release(one)
            self._start_fetches(one)
            if not one.tasks or not one.reads:
                return
            left_s = overdue_s - now_s()
            limit_s = left_s if left_s > 0 else LISTS_WAIT_MS / 1_000
            done, one.tasks = await asyncio.wait(one.tasks, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                for bucket, event in task.result():
                    self._step(one, bucket, event)
            self._hurry(one, is_overdue=now_s() >= overdue_s)
            await self._hand_over(one)

    def _hurry(self, one: _Pass, *, is_overdue: bool) -> None:
        """Read on without the lists that are missing, if new mail waits for this pass to end. Recent buckets are soon
        read again; one that is old waits hours for its next read, and for its lists now."""
        if one.was_pushed_to and not self._is_pushed_to:
            enough = 0  # the next pass subscribes again
        elif is_overdue and not one.was_pushed_to:
            enough = ENOUGH_LISTS
        else:
            return
        now_ms = self._directory.now_ms()
        for bucket in [each for each in one.reads if not is_old(each, now_ms=now_ms)]:
            self._step(one, bucket, ListsOverdue(enough))

    def _step(self, one: _Pass, bucket: int, event: Event) -> None:
        if bucket in one.reads:
            one.reads[bucket], effects = reading.step(one.reads[bucket], event)
            self._plan(one, bucket, effects)

    async def _hand_over(self, one: _Pass) -> None:
        """Hand over what has come of the oldest bucket: whatever ends this pass early, that much is received."""
        bucket = one.order.oldest
        if bucket is not None and bucket in one.reads:
            read, came = one.reads[bucket], one.came[bucket]
            blobs = {each: came.bodies[each] for each in reading.ready(read) if each not in came.handed_over}
            if blobs:
                came.handed_over.update(blobs)
                came.first_seen.update(await self._receiving.take(bucket, blobs, delete_at=reading.delete_at(read)))

    def _plan(self, one: _Pass, bucket: int, effects: Iterable[reading.Effect]) -> None:
        for effect in effects:
            match effect:
                case AskList(node):
                    one.to_list.setdefault(node, []).append(bucket)
                case FetchBodies(node, hashes):
                    for at in range(0, len(hashes), MAX_WANTED_AT_ONCE):
                        part = hashes[at : at + MAX_WANTED_AT_ONCE]
                        one.to_fetch.setdefault(bucket, deque()).append((node, part))
                case Finish():
                    one.finished[bucket] = effect
                    one.reads.pop(bucket, None)

    def _start_lists(self, one: _Pass) -> None:
        """Ask each node for all buckets that wait for it, at most 64 in a request (SPEC 7.12)."""
        wanted, one.to_list = one.to_list, {}
        for node, numbers in wanted.items():
            ordered = sorted(numbers)
            for at in range(0, len(ordered), MOST_ENTRIES):
                one.tasks.add(asyncio.create_task(self._list(one, node, ordered[at : at + MOST_ENTRIES])))

    def _start_fetches(self, one: _Pass) -> None:
        """Ask for bodies, oldest bucket first, as far as memory for those that must wait allows."""
        for bucket in sorted(one.to_fetch):
            waiting = one.to_fetch[bucket]
            while waiting and one.budget.may_ask(len(waiting[0][1]), is_oldest=bucket == one.order.oldest):
                node, hashes = waiting.popleft()
                one.budget.asked(len(hashes))
                one.tasks.add(asyncio.create_task(self._want(one, node, bucket, hashes)))
            if waiting:
                return
            del one.to_fetch[bucket]

    async def _list(self, one: _Pass, node: NodeId, numbers: list[int]) -> Reports:
        try:
            lists = await self._nodes.fetch_lists(node, numbers)
        except CircuitBroke as failed:
            one.failed = failed
            return [(bucket, NotAsked(node)) for bucket in numbers]
        except AttemptFailed as failed:
            one.failed = failed
            return [(bucket, NodeSilent(node)) for bucket in numbers]
        one.has_lists = True
        for bucket, each in lists.items():
            one.listed.setdefault(bucket, {})[node] = each
        return [(bucket, ListReceived(node, each.hashes, each.is_complete)) for bucket, each in lists.items()]

    async def _want(self, one: _Pass, node: NodeId, bucket: int, hashes: tuple[PayloadHash, ...]) -> Reports:
        found: dict[PayloadHash, bytes] = {}
        try:
            found = await self._nodes.want(node, bucket, hashes, may_ask=lambda: one.unsent[node] < MOST_UNSENT)
        except AttemptFailed as failed:
            if isinstance(failed, AnswerForged):
                one.altered_by.setdefault(bucket, []).extend((node, each) for each in hashes)
        one.unsent[node] += len(found) < len(hashes)
        bodies = one.came[bucket].bodies
        new = {each: envelope for each, envelope in found.items() if each not in bodies}
        one.budget.came(len(hashes), sum(map(len, new.values())))
        bodies.update(new)
        return [(bucket, BodiesReceived(node, hashes, frozenset(found)))]

    async def _release(self, one: _Pass) -> None:
        """Hand finished buckets to receiving, oldest first, and record that they were read."""
        for bucket, finish in list(one.finished.items()):
            for released, hashes in one.order.finish(bucket, finish.hashes):
                end = one.finished.pop(released)
                came = one.came.pop(released, _Came())
                blobs = {each: came.bodies[each] for each in hashes if each in came.bodies}
                one.budget.released(sum(map(len, came.bodies.values())))
                came.first_seen.update(await self._receiving.take(released, blobs, delete_at=end.delete_at))
                await self._report(one, released, end, came)
                read = ReadFinished(one.began_at_ms, end.counted, one.storage_nodes, end.is_whole)
                # A subscription that was made or lost during the pass left a time without pushes: read again soon.
                interval_ms = self._interval(
                    is_subscribed=one.was_subscribed and self.is_subscribed,
                    passes_unpushed=self._unpushed_now(),
                )
                self.buckets[released] = bucket_states.step(
                    self.buckets[released], read, now_ms=self._directory.now_ms(), poll_interval_ms=interval_ms
                )
                one.released.append(released)

    def _interval(self, *, is_subscribed: bool, passes_unpushed: int = 0) -> int:
        if self._interval_ms is not None:
            return self._interval_ms
        return poll_interval_ms(is_subscribed=is_subscribed, passes_unpushed=passes_unpushed)

    async def _report(self, one: _Pass, bucket: int, end: Finish, came: _Came) -> None:
        """Journal what nodes signed that hid or altered a blob of this bucket, if other nodes sent it."""
        listed, altered_by = one.listed.pop(bucket, {}), one.altered_by.pop(bucket, [])
        if end.missing_at or altered_by:
            accusations = accuse(
                self._nodes.key(bucket),
                listed,
                came.bodies,
                first_seen=came.first_seen,
                missing_at=end.missing_at,
                altered_by=altered_by,
            )
            if accusations:
                await self._accuse(accusations)


async def _end(tasks: Iterable[asyncio.Task[Reports]]) -> None:
    ended = list(tasks)
    for task in ended:
        task.cancel()
    await asyncio.gather(*ended, return_exceptions=True)
