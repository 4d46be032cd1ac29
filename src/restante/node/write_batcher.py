"""What waits for the disk: puts and deletes of all connections, committed together and answered afterwards (SPEC 6.2).

While one batch is being committed the next one collects. Of many that wait, half are written at a time: while the
clients of one half read their answers and send again, the other half is on its way to the disk. Each session gets one
signature a commit, whatever the number of its puts. Knows nothing of frames coming in, nor of who may do what.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from restante.core.mailbox import Keep
from restante.core.signed_acks import encoded_evidence
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import InboxKey, PayloadHash
from restante.node.stats import RelayCounters, RelayEvent
from restante.policy.quota import MailboxQuota, Refusal
from restante.ports.clock import Clock
from restante.ports.commit_queue import CommitQueue, RunningCommit
from restante.ports.mailbox_store import MailboxStore
from restante.wire.acks import MAX_BATCH_IDS
from restante.wire.frames import codec

if TYPE_CHECKING:
    from restante.node.client_connection import ClientConnection

PARCEL_PUTS: Final = 64  # that are kept together: batches are made of these
SMALL_BATCH: Final = 16
"""Puts, or blobs deleted: so few wait for the disk on the loop, which costs less than a thread does."""

QUICK_DISK_S: Final = 0.01
"""A disk that took no longer for the last batch is waited for on the loop with large ones as well: where all processors
are busy a thread begins late, by half of what such a disk takes. A slower one is waited for in a thread, so that it
keeps nobody else waiting for more than one batch."""

WHOLE_BATCH_PUTS: Final = 128
"""So few are not halved: a smaller batch would leave each put a larger share of the fsync than halving gains."""

MAX_BATCH_PUTS: Final = 1_024  # what one turn of the loop writes, about: some milliseconds
MAX_BATCH_DELETES: Final = 1_024  # blobs; a request has that many at most
DELETED_ID_BYTES: Final = 40  # what an id takes in memory, about, and counts for while it waits

_UNUSABLE: Final = Refusal(permanent=False, code=Code.STORAGE_FAILED, text="the store cannot be used now")


class _PutGroup(NamedTuple):
    """Puts that came together on one connection."""

    session: "ClientConnection"
    requests: Sequence[int]
    keeps: Sequence[Keep]
    size_bytes: int


@dataclass(slots=True, eq=False)
class _Batch:
    """What is committed at once, and what is to be said afterwards if that succeeds."""

    parcels: list[_PutGroup]
    deletes: list["_Delete"]
    now_ms: int
    apart: bool
    started_s: float
    performed_s: float = 0.0
    answers: list[int | Refusal] = field(default_factory=list)
    prepared: "_Prepared | None" = None
    deleted_blobs: int = 0


class _Prepared(NamedTuple):
    stored_puts: int
    stored_bytes: int
    inboxes: set[InboxKey]
    evidence: list[tuple["ClientConnection", bytes]]
    refusals: list[tuple["ClientConnection", int, Refusal]]


class _Delete(NamedTuple):
    session: "ClientConnection"
    request: int
    inbox: InboxKey
    blob_ids: tuple[int, ...]


class WriteBatcher:
    """`announce` is given the inboxes that got mail, after the mail is on disk. `time_s` never jumps."""

    def __init__(
        self,
        identity: Identity,
        store: MailboxStore,
        commits: CommitQueue,
        *,
        quota: MailboxQuota,
        clock: Clock,
        tally: RelayCounters,
        tell: Callable[[RelayEvent, Code | None], None],
        announce: Callable[[AbstractSet[InboxKey]], None],
        time_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._identity = identity
        self._mailbox = store
        self._commits = commits
        self._quota = quota
        self._clock = clock
        self._tally = tally
        self._tell = tell
        self._announce = announce
        self._time_s = time_s
        self._disk_is_quick = False
        self._parcels: list[_PutGroup] = []
        self._deletes: list[_Delete] = []
        self._is_closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._queued_puts = 0
        self.waiting_puts = 0
        self.waiting_bytes = 0

    def put(self, session: "ClientConnection", requests: Sequence[int], keeps: Sequence[Keep]) -> None:
        for start in range(0, len(keeps), PARCEL_PUTS):
            end = start + PARCEL_PUTS
            some = keeps[start:end]
            size_bytes = sum([len(keep.envelope) for keep in some])
            self._parcels.append(_PutGroup(session, requests[start:end], some, size_bytes))
            self._weigh(session, size_bytes)
        self._queued_puts += len(keeps)
        self.waiting_puts += len(keeps)

    def delete(self, session: "ClientConnection", request: int, inbox: InboxKey, blob_ids: tuple[int, ...]) -> None:
        self._deletes.append(_Delete(session, request, inbox, blob_ids))
        self._weigh(session, len(blob_ids) * DELETED_ID_BYTES)

    async def finished(self) -> None:
        """Until all that was taken in is on disk and answered."""
        await self._idle.wait()

    def close(self) -> None:
        """Work no more."""
        self._is_closed = True
        self._idle.set()

    def _weigh(self, session: "ClientConnection", size_bytes: int) -> None:
        self.waiting_bytes += size_bytes
        session.waiting_bytes += size_bytes
        if self._idle.is_set():
            self._idle.clear()
            # Not at once: what other connections bring in this turn of the loop is committed with it.
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Commit the next batch, if there is one.

        Callbacks rather than a task: each turn of the loop that a batch waits for is one in which the disk rests.
        """
        if self._is_closed or not (self._parcels or self._deletes):
            self._idle.set()
            return
        parcels, deletes = self._next_parcels(), self._next_deletes()
        changes = sum([len(parcel.keeps) for parcel in parcels]) + sum([len(each.blob_ids) for each in deletes])
        apart = changes > SMALL_BATCH and not self._disk_is_quick
        batch = _Batch(parcels, deletes, self._clock.now_ms(), apart, self._time_s())
        done = self._commits.start(partial(self._perform, batch), apart=apart)
        if done.done():
            self._end(batch, done)
            asyncio.get_running_loop().call_soon(self._begin)  # whoever was kept waiting for the disk comes first
        else:
            done.add_done_callback(partial(self._go_on, batch))

    def _go_on(self, batch: _Batch, done: RunningCommit) -> None:
        self._end(batch, done)  # first: its clients read their answers while the next batch is written
        self._begin()

    def _next_parcels(self) -> list[_PutGroup]:
        enough = min(max(WHOLE_BATCH_PUTS, self._queued_puts // 2), MAX_BATCH_PUTS)
        puts = taken = 0
        while taken < len(self._parcels) and puts < enough:
            puts += len(self._parcels[taken].keeps)
            taken += 1
        self._queued_puts -= puts
        parcels, self._parcels = self._parcels[:taken], self._parcels[taken:]
        return parcels

    def _next_deletes(self) -> list[_Delete]:
        blobs = taken = 0
        for delete in self._deletes:
            blobs += len(delete.blob_ids)
            if taken and blobs > MAX_BATCH_DELETES:
                break
            taken += 1
        deletes, self._deletes = self._deletes[:taken], self._deletes[taken:]
        return deletes

    def _perform(self, batch: _Batch) -> None:
        """All of the batch, inside the transaction that is to hold it."""
        parcels, now_ms = batch.parcels, batch.now_ms
        if parcels:
            keeps = parcels[0].keeps if len(parcels) == 1 else [keep for parcel in parcels for keep in parcel.keeps]
            batch.answers = self._mailbox.put_all(keeps, quota=self._quota, now_ms=now_ms)
        batch.deleted_blobs = sum(
            [self._mailbox.delete_all(each.inbox, each.blob_ids, now_ms=now_ms) for each in batch.deletes]
        )
        if not batch.apart:
            self._prepare(batch)  # before the wait for the disk, which leaves the processor cold
        else:  # while the disk works
            asyncio.get_running_loop().call_soon(self._prepare, batch)
        batch.performed_s = self._time_s()

    def _end(self, batch: _Batch, done: RunningCommit) -> None:
        """The batch is on disk, or it failed: say so."""
        problem = done.exception()
        self._tally.commits += 1
        now_s = self._time_s()
        self._tally.commit_seconds += now_s - batch.started_s
        self._disk_is_quick = now_s - batch.performed_s <= QUICK_DISK_S
        self._note_health(problem)
        if batch.parcels:
            self._answer_puts(batch, problem)
        if batch.deletes:
            self._answer_deletes(batch, problem)

    def _prepare(self, batch: _Batch) -> _Prepared:
        """What is to be said once the batch is on disk."""
        stored: dict[ClientConnection, tuple[list[int], list[PayloadHash]]] = {}
        refusals: list[tuple[ClientConnection, int, Refusal]] = []
        inboxes: set[InboxKey] = set()
        at = stored_puts = stored_bytes = 0
        for parcel in batch.parcels:
            answers = batch.answers[at : at + len(parcel.keeps)]
            at += len(parcel.keeps)
            requests, keeps = _those_stored(parcel, answers, refusals)
            theirs = stored.setdefault(parcel.session, ([], []))
            theirs[0].extend(requests)
            theirs[1].extend([keep.payload_hash for keep in keeps])
            inboxes.update([keep.inbox_key for keep in keeps])
            stored_puts += len(keeps)
            stored_bytes += parcel.size_bytes if keeps is parcel.keeps else sum([len(keep.envelope) for keep in keeps])
        evidence = [
            (
                session,
                self._evidence(requests[start : start + MAX_BATCH_IDS], hashes[start : start + MAX_BATCH_IDS], batch),
            )
            for session, (requests, hashes) in stored.items()
            if session.transport is not None
            for start in range(0, len(hashes), MAX_BATCH_IDS)
        ]
        batch.prepared = _Prepared(stored_puts, stored_bytes, inboxes, evidence, refusals)
        return batch.prepared

    def _evidence(self, requests: Sequence[int], hashes: Sequence[PayloadHash], batch: _Batch) -> bytes:
        return codec.encode_stored(encoded_evidence(self._identity, hashes, now_ms=batch.now_ms), requests)

    def _answer_puts(self, batch: _Batch, problem: BaseException | None) -> None:
        for session, _, keeps, size_bytes in batch.parcels:
            self.waiting_puts -= len(keeps)
            self.waiting_bytes -= size_bytes
            session.waiting_bytes -= size_bytes
        if problem is not None:
            batch.answers = [_UNUSABLE] * sum([len(parcel.keeps) for parcel in batch.parcels])
            batch.prepared = None
        said = batch.prepared or self._prepare(batch)
        self._tally.puts_stored += said.stored_puts
        self._tally.bytes_stored += said.stored_bytes
        for session, stored in said.evidence:
            session.send(stored)  # only now, with the blobs on disk, may the node say so (SPEC 1.3)
        for session, request, refused in said.refusals:
            session.refuse(request, refused)
        for session in {parcel.session for parcel in batch.parcels}:
            session.resume_reading_if_clear()
        self._announce(said.inboxes)

    def _answer_deletes(self, batch: _Batch, problem: BaseException | None) -> None:
        for session, request, _, blob_ids in batch.deletes:
            self.waiting_bytes -= len(blob_ids) * DELETED_ID_BYTES
            session.waiting_bytes -= len(blob_ids) * DELETED_ID_BYTES
            if problem is not None:
                session.refuse(request, _UNUSABLE)
            else:
                session.send(codec.encode_frame(codec.Deleted(), request))
            session.resume_reading_if_clear()
        if problem is None:
            self._tally.blobs_deleted += batch.deleted_blobs

    def _note_health(self, problem: BaseException | None) -> None:
        if self._tally.store_usable == (problem is not None):
            self._tally.store_usable = problem is None
            code = None if problem is None else Code.STORE_UNUSABLE
            self._tell(RelayEvent.STORE_RECOVERED if problem is None else RelayEvent.STORE_FAILED, code)


def _those_stored(
    parcel: _PutGroup, answers: Sequence[int | Refusal], refusals: list[tuple["ClientConnection", int, Refusal]]
) -> tuple[Sequence[int], Sequence[Keep]]:
    """The others are added to `refusals`."""
    if Refusal not in map(type, answers):
        return parcel.requests, parcel.keeps
    stored: tuple[list[int], list[Keep]] = [], []
    for request, keep, answer in zip(parcel.requests, parcel.keeps, answers, strict=True):
        if isinstance(answer, Refusal):
            refusals.append((parcel.session, request, answer))
        else:
            stored[0].append(request)
            stored[1].append(keep)
    return stored
