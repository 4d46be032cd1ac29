"""What waits for the disk: puts and deletes of all connections, committed together and answered afterwards (SPEC 6.2).

While one batch is being committed the next one collects. Of many that wait, half are written at a time: while the
clients of one half read their answers and send again, the other half is on its way to the disk. Each session gets one
signature a commit, whatever the number of its puts. Knows nothing of frames coming in, nor of who may do what.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from restante.core.acks import encoded_evidence
from restante.core.mailbox import Keep
from restante.crypto.identity import Identity
from restante.model.codes import Code
from restante.model.ids import InboxKey, PayloadHash
from restante.node.figures import RelayEvent, Tally
from restante.policy.quota import Refused, StorageQuota
from restante.ports.clock import Clock
from restante.ports.relay import MailboxStore
from restante.wire import frames
from restante.wire.acks import MAX_BATCH_IDS

if TYPE_CHECKING:
    from restante.node.session import Session

Result = TypeVar("Result")

PARCEL_PUTS: Final = 32
"""Puts that are kept together. Two parcels make two operations, whose commit runs beside the loop
(runtime/sqlite/group_commit)."""

WHOLE_BATCH_PUTS: Final = 128
"""So few are not halved: a smaller batch would leave each put a larger share of the fsync than halving gains."""

MAX_BATCH_PUTS: Final = 1_024  # what one turn of the loop writes, about: some milliseconds
MAX_BATCH_DELETES: Final = 1_024  # blobs; a request has that many at most
DELETED_ID_BYTES: Final = 40  # what an id takes in memory, about, and counts for while it waits

_UNUSABLE: Final = Refused(permanent=False, code=Code.STORAGE_FAILED, text="the store cannot be used now")


class Commits(Protocol):
    """Runs operations on the store so that those waiting together share a commit."""

    async def run(self, operation: Callable[[], Result]) -> Result: ...


class _Parcel(NamedTuple):
    """Puts that came together on one connection."""

    session: "Session"
    requests: Sequence[int]
    keeps: Sequence[Keep]
    size_bytes: int


class _Delete(NamedTuple):
    session: "Session"
    request: int
    inbox: InboxKey
    blob_ids: tuple[int, ...]


class Intake:
    """`announce` is called for every inbox that got mail, after the mail is on disk."""

    def __init__(
        self,
        identity: Identity,
        store: MailboxStore,
        commits: Commits,
        *,
        quota: StorageQuota,
        clock: Clock,
        tally: Tally,
        tell: Callable[[RelayEvent, Code | None], None],
        announce: Callable[[InboxKey], None],
    ) -> None:
        self._identity = identity
        self._store = store
        self._commits = commits
        self._quota = quota
        self._clock = clock
        self._tally = tally
        self._tell = tell
        self._announce = announce
        self._parcels: list[_Parcel] = []
        self._deletes: list[_Delete] = []
        self._working: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._queued_puts = 0
        self.waiting_puts = 0
        self.waiting_bytes = 0

    def put(self, session: "Session", requests: Sequence[int], keeps: Sequence[Keep]) -> None:
        for start in range(0, len(keeps), PARCEL_PUTS):
            end = start + PARCEL_PUTS
            some = keeps[start:end]
            size_bytes = sum([len(keep[3]) for keep in some])
            self._parcels.append(_Parcel(session, requests[start:end], some, size_bytes))
            self._weigh(session, size_bytes)
        self._queued_puts += len(keeps)
        self.waiting_puts += len(keeps)

    def delete(self, session: "Session", request: int, inbox: InboxKey, blob_ids: tuple[int, ...]) -> None:
        self._deletes.append(_Delete(session, request, inbox, blob_ids))
        self._weigh(session, len(blob_ids) * DELETED_ID_BYTES)

    async def finished(self) -> None:
        """Until all that was taken in is on disk and answered."""
        await self._idle.wait()

    def close(self) -> None:
        """Work no more."""
        if self._working is not None:
            self._working.cancel()

    def _weigh(self, session: "Session", size_bytes: int) -> None:
        self.waiting_bytes += size_bytes
        session.waiting_bytes += size_bytes
        if self._working is None:
            self._idle.clear()
            self._working = asyncio.get_running_loop().create_task(self._work())
        elif self._idle.is_set():
            self._idle.clear()
            self._news.set()

    async def _work(self) -> None:
        """One task for as long as there are puts: one that comes back alone is let through to the disk at once
        (runtime/sqlite/group_commit)."""
        try:
            while True:
                while self._parcels or self._deletes:
                    await self._commit(self._next_operations(), self._next_deletes())
                self._idle.set()
                self._news.clear()
                await self._news.wait()
        finally:
            self._working = None
            self._idle.set()

    def _next_operations(self) -> list[list[_Parcel]]:
        """Parcels from the front of the queue, in two operations where there are two: a commit of only one would stop
        the loop."""
        enough = min(max(WHOLE_BATCH_PUTS, self._queued_puts // 2), MAX_BATCH_PUTS)
        puts = taken = 0
        while taken < len(self._parcels) and puts < enough:
            puts += len(self._parcels[taken].keeps)
            taken += 1
        self._queued_puts -= puts
        parcels, self._parcels = self._parcels[:taken], self._parcels[taken:]
        return [some for some in (parcels[:-1], parcels[-1:]) if some]

    def _next_deletes(self) -> list[_Delete]:
        blobs = taken = 0
        for delete in self._deletes:
            blobs += len(delete.blob_ids)
            if taken and blobs > MAX_BATCH_DELETES:
                break
            taken += 1
        deletes, self._deletes = self._deletes[:taken], self._deletes[taken:]
        return deletes

    async def _commit(self, operations: list[list[_Parcel]], deletes: list[_Delete]) -> None:
        now_ms = self._clock.now_ms()
        calls: list[Callable[[], Any]] = [partial(self._store_parcels, each, now_ms) for each in operations]
        if deletes:
            calls.append(partial(self._delete_all, deletes, now_ms))
        started_s = time.perf_counter()
        outcomes = await self._run(calls)
        self._tally.commits += 1
        self._tally.commit_seconds += time.perf_counter() - started_s
        self._note_health(outcomes)
        if deletes:
            self._answer_deletes(deletes, outcomes.pop())
        self._answer_puts(operations, outcomes, now_ms)

    async def _run(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """What each gave, or what it raised."""
        if len(calls) > 1:
            return await asyncio.gather(*map(self._commits.run, calls), return_exceptions=True)
        try:
            return [await self._commits.run(calls[0])]
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may be left waiting
            return [error]

    def _store_parcels(self, parcels: list[_Parcel], now_ms: int) -> list[int | Refused]:
        keeps = parcels[0].keeps if len(parcels) == 1 else [keep for parcel in parcels for keep in parcel.keeps]
        return self._store.put_all(keeps, quota=self._quota, now_ms=now_ms)

    def _delete_all(self, deletes: list[_Delete], now_ms: int) -> int:
        return sum(self._store.delete_all(each.inbox, each.blob_ids, now_ms=now_ms) for each in deletes)

    def _answer_puts(self, operations: list[list[_Parcel]], outcomes: list[Any], now_ms: int) -> None:
        stored: dict[Session, tuple[list[int], list[PayloadHash]]] = {}
        inboxes: set[InboxKey] = set()
        for parcels, outcome in zip(operations, outcomes, strict=True):
            at = 0
            for parcel in parcels:
                session, size = parcel.session, len(parcel.keeps)
                self.waiting_puts -= size
                self.waiting_bytes -= parcel.size_bytes
                session.waiting_bytes -= parcel.size_bytes
                answers = outcome[at : at + size] if isinstance(outcome, list) else [_UNUSABLE] * size
                at += size
                requests, keeps = _those_stored(parcel, answers)
                theirs = stored.setdefault(session, ([], []))
                theirs[0].extend(requests)
                theirs[1].extend([keep[1] for keep in keeps])
                inboxes.update([keep[0] for keep in keeps])
                self._tally.bytes_stored += sum([len(keep[3]) for keep in keeps])
        for session, (requests, hashes) in stored.items():
            self._tally.puts_stored += len(hashes)
            self._give_evidence(session, requests, hashes, now_ms)
        for inbox in inboxes:
            self._announce(inbox)

    def _give_evidence(
        self, session: "Session", requests: Sequence[int], hashes: Sequence[PayloadHash], now_ms: int
    ) -> None:
        """Only now, with the blobs on disk, may the node say so (SPEC 1.3)."""
        for start in range(0, len(hashes), MAX_BATCH_IDS):
            if session.transport is None:
                return
            end = start + MAX_BATCH_IDS
            evidence = encoded_evidence(self._identity, hashes[start:end], now_ms=now_ms)
            session.send(frames.encode_stored(evidence, requests[start:end]))
        session.ease()

    def _answer_deletes(self, deletes: list[_Delete], outcome: Any) -> None:
        for session, request, _, blob_ids in deletes:
            self.waiting_bytes -= len(blob_ids) * DELETED_ID_BYTES
            session.waiting_bytes -= len(blob_ids) * DELETED_ID_BYTES
            if isinstance(outcome, BaseException):
                session.refuse(request, _UNUSABLE)
            else:
                session.send(frames.encode_frame(frames.Deleted(), request))
            session.ease()
        if not isinstance(outcome, BaseException):
            self._tally.blobs_deleted += outcome

    def _note_health(self, outcomes: list[Any]) -> None:
        problems = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if self._tally.store_usable == bool(problems):
            self._tally.store_usable = not problems
            code = Code.STORE_UNUSABLE if problems else None
            self._tell(RelayEvent.STORE_FAILED if problems else RelayEvent.STORE_RECOVERED, code)


def _those_stored(parcel: _Parcel, answers: Sequence[int | Refused]) -> tuple[Sequence[int], Sequence[Keep]]:
    """The others are refused here."""
    if Refused not in map(type, answers):
        return parcel.requests, parcel.keeps
    stored: tuple[list[int], list[Keep]] = [], []
    for request, keep, answer in zip(parcel.requests, parcel.keeps, answers, strict=True):
        if isinstance(answer, Refused):
            parcel.session.refuse(request, answer)
        else:
            stored[0].append(request)
            stored[1].append(keep)
    return stored
