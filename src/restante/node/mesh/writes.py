"""The writes of the mesh family: fair turns between sources, one commit and one signature a batch (SPEC 6.8, 7.8)."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from restante.core.fair_queue import FairQueue
from restante.core.mesh_proofs.receipts import sign_receipts_of_commit
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import InboxKey
from restante.model.sources import Source
from restante.node.frame_family import Peer
from restante.node.write_batcher import COST_BYTES, MAX_BATCH, QUICK_DISK_S, SMALL_BATCH, WHOLE_BATCH
from restante.policy.connection_limits import MAX_UNCOMMITTED_PER_CONNECTION, RelayLimits, may_read
from restante.policy.quota import MailboxQuota, Refusal
from restante.ports.commit_queue import CommitQueue, RunningCommit
from restante.runtime.sqlite.mesh.source_limits import NOT_LIMITED, Room
from restante.runtime.sqlite.mesh.store import MeshKeep, SqliteMeshStore
from restante.wire.frames.mesh import MeshFrame, encode_mesh_frame
from restante.wire.frames.mesh_storage import UNLIMITED, MeshRoom, MeshStored

UNUSABLE: Final = Refusal(permanent=False, code=Code.STORAGE_FAILED, text="the store cannot be used now")


class PutWork(NamedTuple):
    peer: Peer
    source: Source
    request: int
    put: MeshKeep
    is_of_node: bool = False
    """Whether a node put it, which hears how much it may still store."""

    @property
    def size_bytes(self) -> int:
        return len(self.put.keep.envelope)


class ChangeWork(NamedTuple):
    """Another change: `operation` runs inside the commit and returns the answer, which is sent after it, or the work
    that goes on with the change, which waits for turns of its own."""

    peer: Peer
    source: Source
    request: int
    operation: "Callable[[], MeshFrame | Refusal | ChangeWork]"
    size_bytes: int
    rows: int = 0
    """How many rows it looks for or writes, where these cost more than its bytes."""


Work = PutWork | ChangeWork


def _cost(work: Work) -> int:
    rows = work.rows if isinstance(work, ChangeWork) else 0
    return 1 + max(rows, work.size_bytes // COST_BYTES)


@dataclass(slots=True, eq=False)
class _Batch:
    work: list[Work]
    now_ms: int
    performed_s: float = 0.0
    results: list[Any] = field(default_factory=list)
    rooms: dict[int, Room] = field(default_factory=dict)
    """What the source of a put may still store, by the place of the put in `work`."""


class MeshWrites:
    """`now_ms` is network time, `stamp_ms` the time that receipts state, `time_s` a clock that never jumps.

    `on_stored` is called after a commit with the keys that got mail, and their number.
    """

    def __init__(
        self,
        identity: Identity,
        store: SqliteMeshStore,
        commits: CommitQueue,
        *,
        quota: MailboxQuota,
        limits: RelayLimits,
        now_ms: Callable[[], int],
        stamp_ms: Callable[[], int],
        time_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._identity = identity
        self._store = store
        self._commits = commits
        self._quota = quota
        self._limits = limits
        self._now_ms = now_ms
        self._stamp_ms = stamp_ms
        self._time_s = time_s
        self._is_disk_quick = False
        self.on_stored: Callable[[set[InboxKey], int], None] = lambda _keys, _blobs: None
        self._queue: FairQueue[Work] = FairQueue()
        self._by_peer: Counter[Peer] = Counter()
        self._by_source: Counter[Source] = Counter()
        self._paused: dict[Peer, Source] = {}
        self._pending_bytes = 0
        self._is_busy = False
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, work: Work) -> None:
        """Queue a change; the peer is answered after the commit that holds it."""
        self._queue.add(work.source, work.peer, work, cost=_cost(work))
        self._count(work, 1)
        self._idle.clear()
        if not self._may_read(work.peer, work.source) and work.peer not in self._paused:
            self._paused[work.peer] = work.source
            work.peer.pause_reading()
        if not self._is_busy:
            self._is_busy = True
            asyncio.get_running_loop().call_soon(self._begin)

    async def finished(self) -> None:
        """Return when everything queued is on disk and answered."""
        await self._idle.wait()

    def _begin(self) -> None:
        if not len(self._queue):
            self._is_busy = False
            self._idle.set()
            return
        batch = _Batch(self._queue.take(min(max(WHOLE_BATCH, self._queue.cost // 2), MAX_BATCH)), self._now_ms())
        cost = sum(map(_cost, batch.work))
        apart = cost > WHOLE_BATCH or (cost > SMALL_BATCH and not self._is_disk_quick)
        done = self._commits.start(partial(self._perform, batch), apart=apart)
        if done.done():
            self._end(batch, done)
            asyncio.get_running_loop().call_soon(self._begin)
        else:
            done.add_done_callback(partial(self._go_on, batch))

    def _go_on(self, batch: _Batch, done: RunningCommit) -> None:
        self._end(batch, done)
        self._begin()

    def _perform(self, batch: _Batch) -> None:
        """Make the changes of the batch, inside its transaction."""
        batch.results = []
        batch.rooms.clear()
        for place, each in enumerate(batch.work):
            if isinstance(each, PutWork):
                batch.results += self._store.put_all([each.put], quota=self._quota, now_ms=batch.now_ms)
                if each.is_of_node:
                    batch.rooms[place] = self._store.room(each.put, quota=self._quota)
            else:
                batch.results.append(each.operation())
        batch.performed_s = self._time_s()

    def _end(self, batch: _Batch, done: RunningCommit) -> None:
        problem = done.exception()
        self._is_disk_quick = self._time_s() - batch.performed_s <= QUICK_DISK_S
        for each in batch.work:
            self._count(each, -1)
        if problem is not None:
            for each in batch.work:
                each.peer.refuse(each.request, UNUSABLE)
        else:
            self._answer(batch)
        self._resume_paused()

    def _answer(self, batch: _Batch) -> None:
        stored: list[PutWork] = []
        for place, (each, result) in enumerate(zip(batch.work, batch.results, strict=True)):
            room = batch.rooms.get(place)
            if room is not None and room != NOT_LIMITED:
                each.peer.send(encode_mesh_frame(_as_frame(room), each.request))  # before the answer that it is part of
            if isinstance(result, Refusal):
                each.peer.refuse(each.request, result)
            elif isinstance(each, PutWork):
                stored.append(each)
            elif isinstance(result, ChangeWork):
                self.add(result)
            else:
                each.peer.send(encode_mesh_frame(result, each.request))
        if stored:
            self._send_receipts(stored, self._stamp_ms())  # after the commit: lists that are read from now on have them
            self.on_stored({each.put.keep.inbox_key for each in stored}, len(stored))

    def _send_receipts(self, stored: Sequence[PutWork], now_ms: int) -> None:
        """Answer the puts of a commit, which is on disk now (SPEC 1.3): one signature for all of them."""
        receipts = sign_receipts_of_commit(self._identity, [each.put.keep.leaf for each in stored], now_ms=now_ms)
        answers: dict[Peer, list[bytes]] = {}
        for each, receipt in zip(stored, receipts, strict=True):
            frame = encode_mesh_frame(MeshStored(receipt=receipt), each.request)
            answers.setdefault(each.peer, []).append(frame)
        for peer, frames in answers.items():
            peer.send(b"".join(frames))

    def _count(self, work: Work, sign: int) -> None:
        size_bytes = sign * work.size_bytes
        self._pending_bytes += size_bytes
        self._by_peer[work.peer] += size_bytes
        self._by_source[work.source] += size_bytes
        if not self._by_peer[work.peer]:
            del self._by_peer[work.peer]
        if not self._by_source[work.source]:
            del self._by_source[work.source]

    def _may_read(self, peer: Peer, source: Source) -> bool:
        return may_read(
            self._limits,
            of_connection=self._by_peer[peer],
            of_source=self._by_source[source],
            total=self._pending_bytes,
            sources=len(self._by_source),
        )

    def _resume_paused(self) -> None:
        for peer, source in tuple(self._paused.items()):
            if self._by_peer[peer] <= MAX_UNCOMMITTED_PER_CONNECTION // 2 and self._may_read(peer, source):
                del self._paused[peer]
                peer.resume_reading()


def _as_frame(room: Room) -> MeshRoom:
    in_total, in_mailbox = (UNLIMITED if each is None else each for each in room)
    return MeshRoom(node_bytes=in_total, key_bytes=in_mailbox)
