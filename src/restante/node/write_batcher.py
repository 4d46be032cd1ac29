"""Puts and deletes of all connections, committed together in fair turns and answered afterwards (SPEC 6.2, 6.8).

While one batch is being committed the next one collects. Of a long queue half is written at a time: while the clients
of one half read their answers and send again, the other half is written. A commit is signed once, for all peers. Does
not know which frames are allowed, nor how peers are connected.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from restante.core.fair_queue import FairQueue
from restante.core.mailbox import Keep
from restante.core.mesh_proofs.receipts import SignedCommit
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import InboxKey
from restante.model.sources import Source
from restante.node.frame_family import Peer
from restante.node.stats import RelayCounters, RelayEvent
from restante.policy.connection_limits import MAX_UNCOMMITTED_PER_CONNECTION, may_read
from restante.policy.quota import DISK_FULL, Refusal
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.commit_queue import CommitQueue, RunningCommit
from restante.ports.mailbox_store import MailboxStore
from restante.wire.frames import codec
from restante.wire.frames.mailbox import MAX_STORED_AT_ONCE

GROUP_PUTS: Final = 16  # puts of one connection that are queued together, about one turn of `core.fair_queue`
COST_BYTES: Final = 4_096
"""A put costs 1 and once more for each so many bytes, a deleted blob costs 1: about what each takes to write."""

SMALL_BATCH: Final = 16
"""Cost of a batch for which the loop waits itself: handing so little to a thread would take longer."""

QUICK_DISK_S: Final = 0.01
"""If the last batch took no longer, the loop waits for large ones as well: on a busy machine a thread starts late, by
half of what such a disk takes. With a slower disk a thread waits, so that other connections are served meanwhile."""

WHOLE_BATCH: Final = 128
"""A queue of this cost is not halved: each put would pay a larger share of the fsync than halving gains."""

DELETES_WAIT_S: Final = 0.005
"""How long deletes wait for a put to share its commit, while they cost less than `WHOLE_BATCH`: no client needs their
answer soon, and the next put would wait for their fsync."""

MAX_BATCH: Final = 1_024  # cost of one batch: some milliseconds of work, and the longest turn another source waits for
DELETED_ID_BYTES: Final = 40  # memory that the id of a blob to delete takes, about

_UNUSABLE: Final = Refusal(permanent=False, code=Code.STORAGE_FAILED, text="the store cannot be used now")


class _PutGroup(NamedTuple):
    """Puts that came together on one connection."""

    peer: Peer
    requests: Sequence[int]
    keeps: Sequence[Keep]
    size_bytes: int


class _Delete(NamedTuple):
    peer: Peer
    request: int
    inbox: InboxKey
    blob_ids: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return len(self.blob_ids) * DELETED_ID_BYTES


class _Answers(NamedTuple):
    """What to send once a batch is on disk."""

    stored_puts: int
    stored_bytes: int
    receipts: list[tuple[Peer, bytes]]
    refusals: list[tuple[Peer, int, Refusal]]


@dataclass(slots=True, eq=False)
class _Batch:
    """What is committed in one transaction."""

    puts: list[_PutGroup]
    deletes: list[_Delete]
    now_ms: int
    apart: bool
    started_s: float
    performed_s: float = 0.0
    results: list[int | Refusal] = field(default_factory=list)
    answers: _Answers | None = None
    deleted_blobs: int = 0


class WriteBatcher:
    """`may_reap` tells for a time whether expired blobs may be deleted. `time_s` is a clock that never jumps."""

    def __init__(
        self,
        identity: Identity,
        store: MailboxStore,
        commits: CommitQueue,
        *,
        settings: Settings,
        clock: Clock,
        counters: RelayCounters,
        may_reap: Callable[[int], bool] = lambda _now_ms: True,
        time_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._identity = identity
        self._mailbox = store
        self._commits = commits
        self._quota = settings.mailbox
        self._limits = settings.relay
        self._clock = clock
        self._counters = counters
        self._may_reap = may_reap
        self._on_stored: Callable[[AbstractSet[InboxKey]], None] = lambda _inboxes: None
        self._time_s = time_s
        self._disk_is_quick = False
        self._is_disk_full = False  # as of the last puts: deletes go on, and say nothing about it
        self._queue: FairQueue[_PutGroup | _Delete] = FairQueue()
        self._queued_groups = 0  # of puts
        self._deletes_timer: asyncio.TimerHandle | None = None
        self._by_peer: Counter[Peer] = Counter()
        self._by_source: Counter[Source] = Counter()
        self._paused: set[Peer] = set()
        self._running: set[asyncio.Future[object]] = set()
        self._is_stopping = False
        self._is_closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.pending_puts = 0
        self.pending_bytes = 0

    def on_stored(self, call: Callable[[AbstractSet[InboxKey]], None]) -> None:
        """Call `call` with the mailboxes that got blobs, after each commit."""
        self._on_stored = call

    def put(self, peer: Peer, requests: Sequence[int], keeps: Sequence[Keep]) -> None:
        """Queue puts of one peer, which gets a STORED frame after their commit."""
        for start in range(0, len(keeps), GROUP_PUTS):
            end = start + GROUP_PUTS
            some = keeps[start:end]
            size_bytes = sum([len(keep.envelope) for keep in some])
            group = _PutGroup(peer, requests[start:end], some, size_bytes)
            self._add(group, cost=len(some) + size_bytes // COST_BYTES)
        self.pending_puts += len(keeps)
        self._pause_if_greedy(peer)

    def delete(self, peer: Peer, request: int, inbox: InboxKey, blob_ids: tuple[int, ...]) -> None:
        """Queue the deletion of blobs, which the peer is told of after the commit."""
        self._add(_Delete(peer, request, inbox, blob_ids), cost=len(blob_ids))
        self._pause_if_greedy(peer)

    def run(self, operation: Callable[[], object]) -> None:
        """Run an operation in a commit soon. If it fails, the store's health shows it; nobody waits for it."""
        running = asyncio.ensure_future(self._commits.run(operation))
        self._running.add(running)
        running.add_done_callback(self._ended)

    async def finished(self) -> None:
        """Return when everything queued is on disk and answered."""
        await self._idle.wait()

    def stop_reading(self) -> None:
        """Let no paused peer be read from again."""
        self._is_stopping = True

    def close(self) -> None:
        """Begin no further batch."""
        self._is_closed = True
        self._stop_waiting()
        self._idle.set()

    def _ended(self, running: asyncio.Future[object]) -> None:
        self._running.discard(running)
        self._report_health(running.exception())

    def _add(self, work: _PutGroup | _Delete, *, cost: int) -> None:
        peer = work.peer
        self._queue.add(peer.source, peer, work, cost=cost)
        self.pending_bytes += work.size_bytes
        self._by_peer[peer] += work.size_bytes
        self._by_source[peer.source] += work.size_bytes
        self._queued_groups += isinstance(work, _PutGroup)
        if self._idle.is_set() or (self._deletes_timer is not None and not self._may_wait()):
            self._idle.clear()
            self._stop_waiting()
            # Not at once: what other connections bring in this turn of the loop joins the batch.
            asyncio.get_running_loop().call_soon(self._begin)

    def _may_wait(self) -> bool:
        """Return whether only deletes are queued, and not so many that they deserve a commit of their own."""
        return not self._queued_groups and self._queue.cost < WHOLE_BATCH

    def _stop_waiting(self) -> None:
        if self._deletes_timer is not None:
            self._deletes_timer.cancel()
            self._deletes_timer = None

    def _pause_if_greedy(self, peer: Peer) -> None:
        if not self._may_read(peer) and peer not in self._paused:
            self._paused.add(peer)
            peer.pause_reading()

    def _may_read(self, peer: Peer) -> bool:
        return not self._is_stopping and may_read(
            self._limits,
            of_connection=self._by_peer[peer],
            of_source=self._by_source[peer.source],
            total=self.pending_bytes,
            sources=len(self._by_source),
        )

    def _begin(self) -> None:
        """Commit the next batch, if there is one; deletes alone wait a moment for a put.

        By callbacks, not by a task: a task would take one more turn of the loop, in which the disk has nothing to do.
        """
        if self._is_closed or not len(self._queue):
            self._idle.set()
        elif self._may_wait():
            self._deletes_timer = asyncio.get_running_loop().call_later(DELETES_WAIT_S, self._commit_next)
        else:
            self._commit_next()

    def _commit_next(self) -> None:
        self._stop_waiting()
        work = self._queue.take(min(max(WHOLE_BATCH, self._queue.cost // 2), MAX_BATCH))
        puts = [each for each in work if isinstance(each, _PutGroup)]
        deletes = [each for each in work if isinstance(each, _Delete)]
        self._queued_groups -= len(puts)
        changes = sum([len(group.keeps) for group in puts]) + sum([len(each.blob_ids) for each in deletes])
        apart = changes > SMALL_BATCH and not self._disk_is_quick
        batch = _Batch(puts, deletes, self._clock.now_ms(), apart, self._time_s())
        done = self._commits.start(partial(self._perform, batch), apart=apart)
        if done.done():
            self._end(batch, done)
            if len(self._queue):
                asyncio.get_running_loop().call_soon(self._begin)  # connections that waited for the disk come first
            else:
                self._idle.set()
        else:
            done.add_done_callback(partial(self._go_on, batch))

    def _go_on(self, batch: _Batch, done: RunningCommit) -> None:
        self._end(batch, done)  # first: its clients read their answers while the next batch is written
        self._begin()

    def _perform(self, batch: _Batch) -> None:
        """Make the changes of the batch, inside its transaction."""
        puts, now_ms = batch.puts, batch.now_ms
        batch.answers = None  # of a run that found the disk full
        if puts:
            keeps = puts[0].keeps if len(puts) == 1 else [keep for group in puts for keep in group.keeps]
            batch.results = self._mailbox.put_all(
                keeps, quota=self._quota, now_ms=now_ms, may_reap=self._may_reap(now_ms)
            )
        batch.deleted_blobs = sum(
            [self._mailbox.delete_all(each.inbox, each.blob_ids, now_ms=now_ms) for each in batch.deletes]
        )
        if batch.apart:  # while the disk works
            asyncio.get_running_loop().call_soon(self._prepare, batch)
        batch.performed_s = self._time_s()

    def _end(self, batch: _Batch, done: RunningCommit) -> None:
        """Answer a batch that is on disk or has failed."""
        problem = done.exception()
        self._counters.commits += 1
        now_s = self._time_s()
        self._counters.commit_seconds += now_s - batch.started_s
        self._disk_is_quick = now_s - batch.performed_s <= QUICK_DISK_S
        for group in batch.puts:
            self.pending_puts -= len(group.keeps)
            self._release(group.peer, group.size_bytes)
        for delete in batch.deletes:
            self._release(delete.peer, delete.size_bytes)
        if batch.puts:
            self._answer_puts(batch, problem)
        if batch.deletes:
            self._answer_deletes(batch, problem)
        self._report_health(problem)
        self._resume_paused()

    def _prepare(self, batch: _Batch) -> _Answers:
        """Build the answers that are sent once the batch is on disk."""
        stored: dict[Peer, tuple[list[int], list[bytes]]] = {}
        refusals: list[tuple[Peer, int, Refusal]] = []
        at = stored_puts = stored_bytes = 0
        for group in batch.puts:
            results = batch.results[at : at + len(group.keeps)]
            at += len(group.keeps)
            requests, keeps = _stored_of(group, results, refusals)
            theirs = stored.setdefault(group.peer, ([], []))
            theirs[0].extend(requests)
            theirs[1].extend([keep.leaf for keep in keeps])
            stored_puts += len(keeps)
            stored_bytes += group.size_bytes if keeps is group.keeps else sum([len(keep.envelope) for keep in keeps])
        receipts = self._receipts({peer: each for peer, each in stored.items() if each[0] and peer.is_open}, batch)
        batch.answers = _Answers(stored_puts, stored_bytes, receipts, refusals)
        return batch.answers

    def _receipts(
        self, stored: Mapping[Peer, tuple[Sequence[int], Sequence[bytes]]], batch: _Batch
    ) -> list[tuple[Peer, bytes]]:
        """Sign the commit and return the STORED frames: the leaves of each peer adjoin, so they share a path."""
        if not stored:
            return []
        commit = SignedCommit(
            self._identity, [leaf for _, leaves in stored.values() for leaf in leaves], now_ms=batch.now_ms
        )
        frames: list[tuple[Peer, bytes]] = []
        first = 0
        for peer, (requests, _) in stored.items():
            for start in range(0, len(requests), MAX_STORED_AT_ONCE):
                some = tuple(requests[start : start + MAX_STORED_AT_ONCE])
                answer = codec.Stored(ack=commit.ack, requests=some, path=commit.path(first, len(some)))
                frames.append((peer, codec.encode_frame(answer, 0)))
                first += len(some)
        return frames

    def _answer_puts(self, batch: _Batch, problem: BaseException | None) -> None:
        if problem is not None:
            batch.results = [_UNUSABLE] * sum([len(group.keeps) for group in batch.puts])
            batch.answers = None
        else:  # first: recipients wait for it, senders go on without their answers
            self._on_stored({keep.inbox_key for group in batch.puts for keep in group.keeps})
        answers = batch.answers or self._prepare(batch)
        self._counters.puts_stored += answers.stored_puts
        self._counters.bytes_stored += answers.stored_bytes
        for peer, stored in answers.receipts:
            peer.send(stored)  # only now that the blobs are on disk (SPEC 1.3)
        for peer, request, refusal in answers.refusals:
            peer.refuse(request, refusal)
        if problem is None:
            self._is_disk_full = any(refusal is DISK_FULL for _, _, refusal in answers.refusals)

    def _answer_deletes(self, batch: _Batch, problem: BaseException | None) -> None:
        for delete in batch.deletes:
            if problem is not None:
                delete.peer.refuse(delete.request, _UNUSABLE)
            else:
                delete.peer.send(codec.encode_frame(codec.Deleted(), delete.request))
        if problem is None:
            self._counters.blobs_deleted += batch.deleted_blobs

    def _release(self, peer: Peer, size_bytes: int) -> None:
        """Give back memory budget."""
        self.pending_bytes -= size_bytes
        self._by_peer[peer] -= size_bytes
        if not self._by_peer[peer]:
            del self._by_peer[peer]
        self._by_source[peer.source] -= size_bytes
        if not self._by_source[peer.source]:
            del self._by_source[peer.source]

    def _resume_paused(self) -> None:
        for peer in tuple(self._paused):
            if self._by_peer[peer] <= MAX_UNCOMMITTED_PER_CONNECTION // 2 and self._may_read(peer):
                self._paused.discard(peer)
                peer.resume_reading()

    def _report_health(self, problem: BaseException | None) -> None:
        is_usable = problem is None and not self._is_disk_full
        if self._counters.store_usable != is_usable:
            self._counters.store_usable = is_usable
            code = Code.STORAGE_FAILED if problem is None else Code.STORE_UNUSABLE
            event = RelayEvent.STORE_RECOVERED if is_usable else RelayEvent.STORE_FAILED
            self._counters.report(event, None if is_usable else code)


def _stored_of(
    group: _PutGroup, results: Sequence[int | Refusal], refusals: list[tuple[Peer, int, Refusal]]
) -> tuple[Sequence[int], Sequence[Keep]]:
    """Return what was stored of a group; add the rest to `refusals`."""
    if Refusal not in map(type, results):
        return group.requests, group.keeps
    stored: tuple[list[int], list[Keep]] = [], []
    for request, keep, result in zip(group.requests, group.keeps, results, strict=True):
        if isinstance(result, Refusal):
            refusals.append((group.peer, request, result))
        else:
            stored[0].append(request)
            stored[1].append(keep)
    return stored
