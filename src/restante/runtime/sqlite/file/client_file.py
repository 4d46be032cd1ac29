"""The owner of a database file: one connection, one group commit and one journal, which stores borrow.

A store never opens or closes the file. Everything that changes the file runs through `run`, so that operations of
different stores share one transaction and one fsync. On a full disk the file uses its space in reserve.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import BUSY_TIMEOUT_MS, Database
from restante.runtime.sqlite.file.group_commit import GroupCommit
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.file.space_reserve import SpaceReserve

Result = TypeVar("Result")


class OwnedFile:
    """The parts that client and node files share."""

    def __init__(self, database: Database, *, entropy: Entropy, reserve: SpaceReserve) -> None:
        self.database = database
        self.journal = Journal(database, entropy)
        self._after_commit: list[Callable[[], None]] = [reserve.check]
        self.commits = GroupCommit(database, on_commit=self._call_after_commit, make_space=reserve.make_space)
        database.is_disk_full = lambda: reserve.is_full
        database.may_grow = reserve.may_grow
        reserve.reusable_bytes = database.reusable_bytes

    async def run(self, operation: Callable[[], Result]) -> Result:
        """Run one operation in a shared transaction; return its result once the commit is on disk."""
        return await self.commits.run(operation)

    async def read(self, operation: Callable[[], Result]) -> Result:
        """Run an operation that only reads; it sees no change that is not committed."""
        return await self.commits.read(operation)

    def run_later(self, operation: Callable[[], Result]) -> asyncio.Future[Result]:
        """Do as `run`, with the next commit or after a moment: for changes that nothing waits for."""
        return self.commits.run_later(operation)

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call `call` after each commit, before the callers that waited for it get their results."""
        self._after_commit.append(call)

    def close(self) -> None:
        """Finish the commit that is in progress, refuse what has not begun, and close the connection."""
        self.commits.close()
        self.database.close()

    def _call_after_commit(self) -> None:
        for call in self._after_commit:
            call()


def open_database(path: Path, *, schema: str, reserve: SpaceReserve, busy_timeout_ms: int) -> Database:
    """Open the file; create it if it does not exist. A full disk has no space for what a process writes first."""
    if reserve.is_needed():
        reserve.release()
    return Database(path, schema=schema, busy_timeout_ms=busy_timeout_ms)


class ClientFile(OwnedFile):
    """A client's file: outbox, inbox, sessions and their journal."""

    def __init__(self, database: Database, *, entropy: Entropy, reserve: SpaceReserve | None = None) -> None:
        super().__init__(database, entropy=entropy, reserve=reserve or SpaceReserve(database.path))

    @classmethod
    def open(cls, path: Path, *, entropy: Entropy, reserve: SpaceReserve | None = None) -> Self:
        """Open the file; create it if it does not exist."""
        reserve = reserve or SpaceReserve(path)
        database = open_database(path, schema="client", reserve=reserve, busy_timeout_ms=BUSY_TIMEOUT_MS)
        return cls(database, entropy=entropy, reserve=reserve)
