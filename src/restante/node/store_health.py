"""Checks whether a node's store can be used, by writing to it.

A file that was removed or replaced still accepts writes, which are lost with the process, so nothing more may be
acknowledged (SPEC 1.3). A full disk is found by writing as much as the largest message needs.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from restante.model.error_codes import Code
from restante.model.errors import StoreUnusable
from restante.model.limits import MAX_SEALED_BYTES
from restante.node.safe_logging import Reason
from restante.ports.commit_queue import CommitQueue, RunningCommit
from restante.runtime.sqlite.file.database import Database

FRESH_S: Final = 1.0  # an answer is reused this long, so that frequent checks do not wear out the disk
LIMIT_S: Final = 5.0
_WRITE_PROBE: Final = """\
INSERT INTO meta (key, value) VALUES ('probe', zeroblob(:size))
    ON CONFLICT (key) DO UPDATE SET value = excluded.value"""
_DELETE_PROBE: Final = "DELETE FROM meta WHERE key = 'probe'"
_GONE: Final = "the database file was removed or replaced while it was in use; restart the node"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    usable: bool
    reason: Reason | None = None
    code: Code | None = None


class WatchedFile:
    """Passes operations to the one writer while the database is still the file that was opened."""

    def __init__(self, database: Database, commits: CommitQueue) -> None:
        wal = database.path.with_name(f"{database.path.name}-wal")
        self._commits = commits
        self._seen = {path: _inode(path) for path in (database.path, wal)}
        self.gone = False

    async def run(self, operation: Callable[[], Result]) -> Result:
        if self.gone:
            raise StoreUnusable(_GONE)
        return await self._commits.run(operation)

    def start(self, operation: Callable[[], object], *, apart: bool) -> RunningCommit:
        if self.gone:
            answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            answer.set_exception(StoreUnusable(_GONE))
            return answer
        return self._commits.start(operation, apart=apart)

    def look(self) -> bool:
        """Return whether the files are still there. Once gone, they stay gone for this process."""
        for path, before in self._seen.items():
            now = _inode(path)
            if before is None:
                self._seen[path] = now
            elif now != before:
                self.gone = True
        return not self.gone


class StoreHealth:
    """`takes_puts` returns whether the last commit of puts succeeded."""

    def __init__(self, database: Database, file: WatchedFile, *, takes_puts: Callable[[], bool]) -> None:
        self._database = database
        self._file = file
        self._takes_puts = takes_puts
        self._asking = asyncio.Lock()
        self._last = StoreStatus(usable=True)
        self._asked_at_s = float("-inf")

    async def check(self) -> StoreStatus:
        """Return the status by a write of at most a second ago."""
        loop = asyncio.get_running_loop()
        async with self._asking:
            if loop.time() - self._asked_at_s >= FRESH_S:
                self._last = await self._probe()
                self._asked_at_s = loop.time()
        return self._last

    async def _probe(self) -> StoreStatus:
        if not self._file.look():
            return StoreStatus(usable=False, reason=Reason.FILE_GONE, code=Code.STORE_UNUSABLE)
        try:
            has_space = _free_bytes(self._database.path) >= MAX_SEALED_BYTES
            if has_space:
                async with asyncio.timeout(LIMIT_S):
                    await self._write()
            if has_space and not self._database.is_disk_full():  # as of the write, which looks at the disk
                return StoreStatus(usable=True)
            reason, code = Reason.DISK_FULL, Code.STORAGE_FAILED
        except StoreUnusable as problem:
            reason, code = Reason.CANNOT_WRITE, problem.code
        except TimeoutError:
            reason, code = Reason.TOO_SLOW, Code.STORAGE_FAILED
        except OSError:
            reason, code = Reason.CANNOT_WRITE, Code.STORE_UNUSABLE
        return StoreStatus(usable=False, reason=reason, code=code)

    async def _write(self) -> None:
        """Write one byte; after a failed put as much as a put, because a small write may succeed where none fits.

        On a full disk one byte, too: what is left is for deletes.
        """
        size = 1 if self._takes_puts() or self._database.is_disk_full() else MAX_SEALED_BYTES
        await self._file.run(lambda: self._database.run(_WRITE_PROBE, size=size))
        if size > 1:
            await self._file.run(lambda: self._database.run(_DELETE_PROBE))


def _free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
