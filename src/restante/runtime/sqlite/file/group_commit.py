"""Group commit: operations that wait at the same moment share one transaction and one fsync (SPEC 3.2, 6.2).

Answers every caller only after the commit that holds its change. If an operation raises before it has written
anything, the others of its group are committed without it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from typing import Any, Final, TypeVar

from restante.model.errors import DiskFull, StoreUnusable
from restante.runtime.sqlite.file.database import Database

Result = TypeVar("Result")

MAX_GROUP: Final = 256
"""With this many the fsync is a small share of a group's time, and the first caller still waits only briefly."""

LONELY_TURN_S: Final = 0.002
"""How long a single caller may occupy the event loop with one commit after the other before it yields to other tasks. A
full group occupies it about as long."""

LATER_S: Final = 0.01
"""How long an operation of `run_later` waits for a commit to join."""

QUICK_DISK_S: Final = 0.002
"""If the last commit took no longer than this, the next one runs on the event loop. A full group's statements occupy
the loop about as long; handing the commit to a thread and back would cost the group a tenth of its time."""

_CLOSED: Final = "the file was closed before this began; nothing was changed"


@dataclass(slots=True)
class _Waiting:
    operation: Callable[[], Any]
    answer: asyncio.Future[Any]
    task: asyncio.Task[Any] | None
    apart: bool = False
    later: bool = False
    result: Any = None
    refusal: Exception | None = None


class _TornError(Exception):
    """An operation raised after it had written: the group is rolled back and its operations run one by one."""


class GroupCommit:
    """The one writer of a database in this process. All use of the database goes through `run`."""

    def __init__(
        self,
        database: Database,
        *,
        on_commit: Callable[[], None] = lambda: None,
        make_space: Callable[[], bool] = lambda: False,
        time_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_commit` is called after each commit, before its callers are answered.

        `make_space` is called when the disk is full. If it returns True, the operations run again.
        """
        self._database = database
        self._on_commit = on_commit
        self._make_space = make_space
        self._waiting: deque[_Waiting] = deque()
        self._later: list[_Waiting] = []
        self._later_timer: asyncio.TimerHandle | None = None
        self._later_loop: asyncio.AbstractEventLoop  # of the timer
        self._busy = False
        self._loop: asyncio.AbstractEventLoop  # of the group in progress
        self._lonely: asyncio.Task[Any] | None = None
        self._time_s = time_s
        self._turn_began_s = 0.0
        self._disk_took_s = inf  # not known yet
        self._closed = False
        self._committer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="restante-commit")

    async def run(self, operation: Callable[[], Result]) -> Result:
        """Return what `operation` returned, once its changes are on disk. If it raises, its changes are undone."""
        if self._closed:
            raise StoreUnusable(_CLOSED)
        if self._busy:
            loop = self._loop
            return await self._enqueue(operation, loop, None)  # another caller came first, so this one is not alone
        self._loop = loop = asyncio.get_running_loop()
        self._busy = True
        task = asyncio.current_task(loop)
        answer = self._enqueue(operation, loop, task)
        if task is not self._lonely:
            # Not at once: other tasks that are ready in this turn of the loop join the group first.
            loop.call_soon(self._take_group, loop)
            return await answer
        self._take_group(loop)  # the last group had only this task, so no other caller is expected
        result = await answer
        if self._time_s() - self._turn_began_s >= LONELY_TURN_S:
            await asyncio.sleep(0)
            self._turn_began_s = self._time_s()
        return result

    def _enqueue(
        self, operation: Callable[[], Result], loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None
    ) -> asyncio.Future[Result]:
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append(_Waiting(operation, answer, task))
        return answer

    async def read(self, operation: Callable[[], Result]) -> Result:
        """Return what `operation` returned, which changes nothing: at once, unless a group is in progress."""
        if self._busy:
            return await self.run(operation)
        if self._closed:
            raise StoreUnusable(_CLOSED)
        return operation()

    def run_later(self, operation: Callable[[], Result]) -> asyncio.Future[Result]:
        """Do as `run`, but let the operation join the next commit; after `LATER_S` seconds, commit it alone.

        For changes that nothing waits for: they cost no fsync of their own while there is traffic.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        if self._closed:
            answer.set_exception(StoreUnusable(_CLOSED))
            return answer
        self._later.append(_Waiting(operation, answer, None, later=True))
        if self._later_timer is None or self._later_loop is not loop:
            self._later_loop = loop
            self._later_timer = loop.call_later(LATER_S, self._begin_later, loop)
        return answer

    def _begin_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take what nothing took along; if a group is in progress, it is the next."""
        self._later_timer = None
        self._take_along()
        if self._waiting and not self._busy:
            self._busy = True
            self._loop = loop
            self._take_group(loop)

    def _take_along(self) -> None:
        """Put the operations of `run_later` first: those after them may depend on them.

        Operations of an event loop that has ended are dropped, because their callers ended with it.
        """
        self._waiting.extendleft(
            waiting for waiting in reversed(self._later) if not waiting.answer.get_loop().is_closed()
        )
        self._later.clear()

    def start(self, operation: Callable[[], Result], *, apart: bool) -> asyncio.Future[Result]:
        """Do as `run`, for a caller that has gathered a batch itself: begin at once if no group is in progress.

        `apart`: commit in a thread, however small the group is. Otherwise the returned future is already done if no
        other group was in progress and the disk is fast.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        if self._closed:
            answer.set_exception(StoreUnusable(_CLOSED))
            return answer
        self._waiting.append(_Waiting(operation, answer, None, apart))
        if not self._busy:
            self._busy = True
            self._loop = loop
            self._take_group(loop)
        return answer

    def _run_in_transaction(self, operation: Callable[[], Result]) -> Result:
        """Run and commit `operation`. On a full disk run it again as long as there is a way to make space."""
        while True:
            try:
                with self._database.transaction():
                    return operation()
            except DiskFull:
                if not self._make_space():
                    raise

    def close(self) -> None:
        """Wait for the commit in progress; refuse the operations that have not begun."""
        self._closed = True
        self._take_along()
        if self._later_timer is not None:
            self._later_timer.cancel()
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():
                waiting.answer.set_exception(StoreUnusable(_CLOSED))
        self._committer.shutdown()

    def _take_group(self, loop: asyncio.AbstractEventLoop) -> None:
        self._take_along()
        group: list[_Waiting] = []
        while self._waiting and len(group) < MAX_GROUP:
            waiting = self._waiting.popleft()
            if not waiting.answer.cancelled():
                group.append(waiting)
        if not group:
            self._busy = False
            return
        try:
            self._perform(group)
        except _TornError:
            self._perform_one_by_one(group)
            self._answer(group, None, loop)
        except Exception as failure:  # noqa: BLE001 - given to every caller of the group
            self._finish(group, failure, loop)
        else:
            self._commit(group, loop)

    def _perform(self, group: list[_Waiting]) -> None:
        self._database.begin()
        try:
            for waiting in group:
                before = self._database.changes()
                try:
                    waiting.result = waiting.operation()
                except StoreUnusable:
                    raise
                except Exception as refusal:  # noqa: BLE001 - raised to its own caller only
                    if self._database.changes() != before:
                        raise _TornError from None
                    waiting.refusal = refusal
            self._write_deferred()
        except BaseException:
            self._database.roll_back()
            raise

    def _write_deferred(self) -> None:
        """Write deferred rows here, on the loop. The committing thread then only waits for the disk."""
        try:
            self._database.write_deferred()
        except StoreUnusable:
            raise
        except Exception:  # noqa: BLE001 - rows of one operation were refused; running them one by one finds it
            raise _TornError from None

    def _perform_one_by_one(self, group: list[_Waiting]) -> None:
        for waiting in group:
            waiting.refusal = None
            try:
                waiting.result = self._run_in_transaction(waiting.operation)
                self._on_commit()
            except Exception as refusal:  # noqa: BLE001 - raised to its own caller only
                waiting.refusal = refusal

    def _commit(self, group: list[_Waiting], loop: asyncio.AbstractEventLoop) -> None:
        """Commit on the event loop if the group has one caller or the disk is fast.

        A slow disk is waited for in a thread, while the next group gathers.
        """
        callers = [waiting for waiting in group if not waiting.later]
        is_alone = len(callers) <= 1
        if callers:
            self._lonely = callers[0].task if is_alone else None
        if (is_alone or self._disk_took_s <= QUICK_DISK_S) and not any(waiting.apart for waiting in group):
            self._finish(group, self._try_commit(), loop)
            return
        committed = loop.run_in_executor(self._committer, self._try_commit)
        committed.add_done_callback(lambda done: self._finish(group, done.result(), loop))

    def _try_commit(self) -> Exception | None:
        began_s = self._time_s()
        try:
            self._database.commit()
            self._disk_took_s = self._time_s() - began_s
        except Exception as failure:  # noqa: BLE001 - given to every caller of the group
            return failure
        return None

    def _finish(self, group: list[_Waiting], failure: Exception | None, loop: asyncio.AbstractEventLoop) -> None:
        """Answer the callers. On a full disk make space and run their operations again, one by one."""
        if isinstance(failure, DiskFull) and self._make_space():
            self._perform_one_by_one(group)
            failure = None
        self._answer(group, failure, loop)

    def _answer(self, group: list[_Waiting], failure: Exception | None, loop: asyncio.AbstractEventLoop) -> None:
        if failure is None:
            self._on_commit()
        for waiting in group:
            if waiting.answer.done():
                continue
            problem = failure or waiting.refusal
            if problem is None:
                waiting.answer.set_result(waiting.result)
            else:
                waiting.answer.set_exception(problem)
        if self._waiting:
            loop.call_soon(self._take_group, loop)
        else:
            self._busy = False
