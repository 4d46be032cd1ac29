"""Group commit: operations that wait at the same moment share one transaction and one fsync (SPEC 3.2, 6.2).

Every caller is answered only after the commit that holds its change. Knows nothing of what the operations do; one that
refuses, having written nothing, does not disturb the others of its group.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from restante.model.errors import StoreUnusable
from restante.runtime.sqlite.database import Database

Result = TypeVar("Result")

MAX_GROUP: Final = 256
"""Enough that the fsync is a small share of a group's time, few enough that its first caller does not wait long."""

_CLOSED: Final = "the file was closed before this began; nothing was changed"


@dataclass(slots=True)
class _Waiting:
    operation: Callable[[], Any]
    answer: asyncio.Future[Any]
    result: Any = None
    refusal: Exception | None = None


class _TornError(Exception):
    """An operation refused after it had written: its group must be taken apart."""


class GroupCommit:
    """The one writer of a database in this process. All use of the database goes through `run`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Waiting] = deque()
        self._busy = False
        self._closed = False
        self._committer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="restante-commit")

    async def run(self, operation: Callable[[], Result]) -> Result:
        """What `operation` returned, once it is on disk; what it raised, with nothing of it kept."""
        if self._closed:
            raise StoreUnusable(_CLOSED)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append(_Waiting(operation, answer))
        if not self._busy:
            self._busy = True
            # Not at once: whoever else is ready in this turn of the loop joins the group first.
            loop.call_soon(self._take_group, loop)
        return await answer

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
                before = self._database.total_changes()
                try:
                    waiting.result = waiting.operation()
                except StoreUnusable:
                    raise
                except Exception as refusal:  # noqa: BLE001 - a mistake of one caller must not reach the others
                    if self._database.total_changes() != before:
                        raise _TornError from None
                    waiting.refusal = refusal
        except BaseException:
            self._database.roll_back()
            raise

    def _perform_one_by_one(self, group: list[_Waiting]) -> None:
        for waiting in group:
            waiting.refusal = None
            try:
                with self._database.transaction():
                    waiting.result = waiting.operation()
            except Exception as refusal:  # noqa: BLE001 - as above
                waiting.refusal = refusal

    def _commit(self, group: list[_Waiting], loop: asyncio.AbstractEventLoop) -> None:
        """A lone caller waits for the disk right here: a thread would cost it more than the fsync does."""
        if len(group) == 1:
            self._answer(group, self._try_commit(), loop)
            return
        committed = loop.run_in_executor(self._committer, self._try_commit)
        committed.add_done_callback(lambda done: self._answer(group, done.result(), loop))

    def _try_commit(self) -> Exception | None:
        try:
            self._database.commit()
        except Exception as failure:  # noqa: BLE001 - given to every caller of the group
            return failure
        return None

    def _answer(self, group: list[_Waiting], failure: Exception | None, loop: asyncio.AbstractEventLoop) -> None:
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
