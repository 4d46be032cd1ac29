"""What waits for the disk: puts and deletes of all connections, committed together and answered afterwards (SPEC 6.2).

While one batch is being committed the next one collects. Each session gets one signature a commit, whatever the number
of its puts. Knows nothing of frames coming in, nor of who may do what.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from restante.core.acks import delivery_evidence
from restante.core.mailbox import Keep
from restante.crypto.identity import Identity
from restante.model.codes import Code
from restante.model.errors import StoreUnusable
from restante.model.ids import InboxKey
from restante.node.figures import RelayEvent, Tally
from restante.policy.quota import Refused, StorageQuota
from restante.ports.clock import Clock
from restante.ports.relay import MailboxStore
from restante.wire import frames
from restante.wire.acks import MAX_BATCH_IDS

if TYPE_CHECKING:
    from restante.node.session import Session

Result = TypeVar("Result")

SLICE_PUTS: Final = 64
"""Puts in one operation. More than one operation lets the commit run beside the loop (runtime/sqlite/group_commit)."""

MAX_BATCH_PUTS: Final = 1_024  # what one turn of the loop writes, at most: some milliseconds
DELETE_WEIGHT_BYTES: Final = 64  # what a delete counts for while it waits

_UNUSABLE: Final = Refused(permanent=False, code=Code.STORAGE_FAILED, text="the store cannot be used now")


class Commits(Protocol):
    """Runs operations on the store so that those waiting together share a commit."""

    async def run(self, operation: Callable[[], Result]) -> Result: ...


class _Put(NamedTuple):
    session: "Session"
    request: int
    keep: Keep


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
        self._puts: list[_Put] = []
        self._deletes: list[_Delete] = []
        self._working: asyncio.Task[None] | None = None
        self.waiting_bytes = 0

    @property
    def waiting_puts(self) -> int:
        return len(self._puts)

    def put(self, session: "Session", request: int, keep: Keep) -> None:
        self._puts.append(_Put(session, request, keep))
        self._weigh(session, len(keep.envelope))

    def delete(self, session: "Session", request: int, inbox: InboxKey, blob_ids: tuple[int, ...]) -> None:
        self._deletes.append(_Delete(session, request, inbox, blob_ids))
        self._weigh(session, DELETE_WEIGHT_BYTES)

    async def finished(self) -> None:
        """Until all that was taken in is on disk and answered."""
        while self._working is not None:
            await asyncio.wait([self._working])

    def _weigh(self, session: "Session", size_bytes: int) -> None:
        self.waiting_bytes += size_bytes
        session.waiting_bytes += size_bytes
        if self._working is None:
            self._working = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._puts or self._deletes:
                puts, self._puts = self._puts[:MAX_BATCH_PUTS], self._puts[MAX_BATCH_PUTS:]
                deletes, self._deletes = self._deletes, []
                await self._commit(puts, deletes)
        finally:
            self._working = None

    async def _commit(self, puts: list[_Put], deletes: list[_Delete]) -> None:
        slices = [puts[start : start + SLICE_PUTS] for start in range(0, len(puts), SLICE_PUTS)]
        now_ms = self._clock.now_ms()
        operations: list[Callable[[], Any]] = [partial(self._store_slice, each, now_ms) for each in slices]
        if deletes:
            operations.append(partial(self._delete_slice, deletes, now_ms))
        started_s = time.perf_counter()
        outcomes = await self._run(operations)
        self._tally.commits += 1
        self._tally.commit_seconds += time.perf_counter() - started_s
        self._note_health(outcomes)
        if deletes:
            self._answer_deletes(deletes, outcomes.pop())
        self._answer_puts(slices, outcomes, now_ms)

    async def _run(self, operations: Sequence[Callable[[], Any]]) -> list[Any]:
        """What each gave, or the `StoreUnusable` it met."""
        if len(operations) > 1:
            return await asyncio.gather(*map(self._commits.run, operations), return_exceptions=True)
        try:
            return [await self._commits.run(operations[0])]
        except StoreUnusable as error:
            return [error]

    def _store_slice(self, puts: list[_Put], now_ms: int) -> list[int | Refused]:
        return self._store.put_all([put.keep for put in puts], quota=self._quota, now_ms=now_ms)

    def _delete_slice(self, deletes: list[_Delete], now_ms: int) -> int:
        return sum(self._store.delete_all(each.inbox, each.blob_ids, now_ms=now_ms) for each in deletes)

    def _answer_puts(self, slices: list[list[_Put]], outcomes: list[Any], now_ms: int) -> None:
        stored: dict[Session, list[_Put]] = {}
        inboxes: set[InboxKey] = set()
        for puts, outcome in zip(slices, outcomes, strict=True):
            answers = [_UNUSABLE] * len(puts) if isinstance(outcome, BaseException) else outcome
            for put, answer in zip(puts, answers, strict=True):
                session, request, keep = put
                size_bytes = len(keep.envelope)
                self.waiting_bytes -= size_bytes
                session.waiting_bytes -= size_bytes
                if isinstance(answer, Refused):
                    session.refuse(request, answer)
                    continue
                self._tally.puts_stored += 1
                self._tally.bytes_stored += size_bytes
                inboxes.add(keep.inbox_key)
                stored.setdefault(session, []).append(put)
        for session, theirs in stored.items():
            self._give_evidence(session, theirs, now_ms)
        for inbox in inboxes:
            self._announce(inbox)

    def _give_evidence(self, session: "Session", puts: list[_Put], now_ms: int) -> None:
        """Only now, with the blobs on disk, may the node say so (SPEC 1.3)."""
        for start in range(0, len(puts), MAX_BATCH_IDS):
            if session.transport is None:
                return
            some = puts[start : start + MAX_BATCH_IDS]
            evidence = delivery_evidence(self._identity, [put.keep.payload_hash for put in some], now_ms=now_ms)
            answer = frames.Stored(batch=evidence.batch, requests=tuple(put.request for put in some))
            session.send(frames.encode_frame(answer, 0))
        session.ease()

    def _answer_deletes(self, deletes: list[_Delete], outcome: Any) -> None:
        for session, request, _, _ in deletes:
            self.waiting_bytes -= DELETE_WEIGHT_BYTES
            session.waiting_bytes -= DELETE_WEIGHT_BYTES
            if isinstance(outcome, BaseException):
                session.refuse(request, _UNUSABLE)
            else:
                session.send(frames.encode_frame(frames.Deleted(), request))
            session.ease()
        if not isinstance(outcome, BaseException):
            self._tally.blobs_deleted += outcome

    def _note_health(self, outcomes: list[Any]) -> None:
        problems = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for problem in problems:
            if not isinstance(problem, StoreUnusable):
                raise problem
        if self._tally.store_usable == bool(problems):
            self._tally.store_usable = not problems
            self._tell(RelayEvent.STORE_FAILED if problems else RelayEvent.STORE_RECOVERED, _code_of(problems))


def _code_of(problems: list[Any]) -> Code | None:
    return problems[0].code if problems else None
