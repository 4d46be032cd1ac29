"""Group commit: operations that wait at the same moment share one transaction and one fsync (SPEC 3.2, 6.2).

Every caller is answered only after the commit that holds its change. Knows nothing of what the operations do; one that
refuses, having written nothing, does not disturb the others of its group.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from typing import Any, Final, TypeVar

from restante.model.errors import StoreUnusable
from restante.runtime.sqlite.file.database import Database

Result = TypeVar("Result")

MAX_GROUP: Final = 256
"""Enough that the fsync is a small share of a group's time, few enough that its first caller does not wait long."""

LONELY_TURN_S: Final = 0.002
"""How long a caller that is alone may keep the loop with one commit after the other before the others have a turn: no
longer than a group does."""

QUICK_DISK_S: Final = 0.002
"""A disk that took no longer for the last commit is waited for on the loop, which is about as long as a full group's
statements keep it: handing the file to a thread and back would cost the group a tenth of its time."""

_CLOSED: Final = "the file was closed before this began; nothing was changed"


@dataclass(slots=True)
class _Waiting:
    operation: Callable[[], Any]
    answer: asyncio.Future[Any]
    task: asyncio.Task[Any] | None
    apart: bool = False
    result: Any = None
    refusal: Exception | None = None


class _TornError(Exception):
    """An operation refused after it had written: its group must be taken apart."""


class GroupCommit:
    """The one writer of a database in this process. All use of the database goes through `run`."""

    def __init__(
        self,
        database: Database,
        *,
        on_commit: Callable[[], None] = lambda: None,
        time_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_commit` is called after each commit, before those who waited for it are answered."""
        self._database = database
        self._on_commit = on_commit
        self._waiting: deque[_Waiting] = deque()
        self._busy = False
        self._loop: asyncio.AbstractEventLoop  # of the group under way
        self._lonely: asyncio.Task[Any] | None = None
        self._time_s = time_s
        self._turn_began_s = 0.0
        self._disk_took_s = inf  # not known yet
        self._closed = False
        self._committer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="restante-commit")

    async def run(self, operation: Callable[[], Result]) -> Result:
        """What `operation` returned, once it is on disk; what it raised, with nothing of it kept."""
        if self._closed:
            raise StoreUnusable(_CLOSED)
        if self._busy:
            loop = self._loop
            task = None  # somebody was here first: it is not alone
        else:
            self._loop = loop = asyncio.get_running_loop()
            task = asyncio.current_task(loop)
            if task is self._lonely:
                result = self._run_alone(operation)
                if self._time_s() - self._turn_began_s >= LONELY_TURN_S:
                    await asyncio.sleep(0)
                    self._turn_began_s = self._time_s()
                return result
            self._busy = True
            # Not at once: whoever else is ready in this turn of the loop joins the group first.
            loop.call_soon(self._take_group, loop)
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append(_Waiting(operation, answer, task))
        return await answer

    def start(self, operation: Callable[[], Result], *, apart: bool) -> asyncio.Future[Result]:
        """As `run`, for a caller that has gathered a batch by itself: what can begin begins now.

        `apart`: the disk is waited for in a thread, however few there are. Otherwise the answer is there when this
        returns, if nobody else was about.
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

    def _run_alone(self, operation: Callable[[], Result]) -> Result:
        """The last group was this task alone, and it is back: nobody else is waited for.

        It waits for the disk right here: a thread would cost it more than the fsync does.
        """
        self._database.begin()
        try:
            result = operation()
        except BaseException:
            self._database.roll_back()
            raise
        self._database.commit()
        self._on_commit()
        return result

    def close(self) -> None:
        """Returns when the commit under way is done; what has not begun is refused, not left waiting."""
        self._closed = True
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():
                waiting.answer.set_exception(StoreUnusable(_CLOSED))
        self._committer.shutdown()

    def _take_group(self, loop: asyncio.AbstractEventLoop) -> None:
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
        except Exception as failure:  # noqa: BLE001 - whatever it is, nobody may be left waiting
            self._answer(group, failure, loop)
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
                except Exception as refusal:  # noqa: BLE001 - a mistake of one caller must not reach the others
                    if self._database.changes() != before:
                        raise _TornError from None
                    waiting.refusal = refusal
            self._settle()
        except BaseException:
            self._database.roll_back()
            raise

    def _settle(self) -> None:
        """Here rather than in the committing thread, which should do nothing but wait for the disk."""
        try:
            self._database.write_deferred()
        except StoreUnusable:
            raise
        except Exception:  # noqa: BLE001 - some operation's rows were refused; whose, is found one by one
            raise _TornError from None

    def _perform_one_by_one(self, group: list[_Waiting]) -> None:
        for waiting in group:
            waiting.refusal = None
            try:
                with self._database.transaction():
                    waiting.result = waiting.operation()
                self._on_commit()
            except Exception as refusal:  # noqa: BLE001 - as above
                waiting.refusal = refusal

    def _commit(self, group: list[_Waiting], loop: asyncio.AbstractEventLoop) -> None:
        """One alone waits for the disk right here, and so do several for a quick one; a slow disk is left to a thread,
        and the next group gathers meanwhile."""
        is_alone = len(group) == 1
        self._lonely = group[0].task if is_alone else None
        if (is_alone or self._disk_took_s <= QUICK_DISK_S) and not any(waiting.apart for waiting in group):
            self._answer(group, self._try_commit(), loop)
            return
        committed = loop.run_in_executor(self._committer, self._try_commit)
        committed.add_done_callback(lambda done: self._answer(group, done.result(), loop))

    def _try_commit(self) -> Exception | None:
        began_s = self._time_s()
        try:
            self._database.commit()
            self._disk_took_s = self._time_s() - began_s
        except Exception as failure:  # noqa: BLE001 - given to every caller of the group
            return failure
        return None

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
