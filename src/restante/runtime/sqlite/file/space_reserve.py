"""Disk space kept in reserve, so that what frees space still works when the disk is full.

At a client, draining and acks delete payloads; at a node, recipients delete what they fetched and reaping deletes what
expired. Each of these commits needs space in the write-ahead log first. While little space is free, a file of fixed
size stands beside the database. When a commit finds the disk full, stores refuse new mail until there is space again,
and if that is not enough, the file is deleted. A process that starts on a full disk deletes it first. With plenty of
space there is no file.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from restante.model.errors import DiskFull

Result = TypeVar("Result")

RESERVE_BYTES: Final = 16 * 1024 * 1024
"""Twice what a client's write-ahead log takes until its checkpoint, which then copies its pages into the file."""
SCARCE_BYTES: Final = 1024 * 1024 * 1024  # below this much free space the reserve is held
CHECK_INTERVAL_S: Final = 1.0
RETRY_S: Final = 1.0
_CHUNK: Final = bytes(1024 * 1024)
_LOG: Final = logging.getLogger("restante.client")


async def once_there_is_space(work: Callable[[], Awaitable[Result]]) -> Result:
    """Return the result of `work`; repeat it while the disk has no space for it. What frees space goes on meanwhile."""
    is_logged = False
    while True:
        try:
            return await work()
        except DiskFull:
            if not is_logged:
                _LOG.error("the disk is full; what arrives waits at its node until there is space")
                is_logged = True
            await asyncio.sleep(RETRY_S)


def free_bytes_at(directory: Path) -> int:
    """Return the free space of the disk for this user."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


class SpaceReserve:
    """The reserve of one database file. Processes that share the file share the reserve."""

    def __init__(
        self,
        database: Path,
        *,
        size_bytes: int = RESERVE_BYTES,
        free_bytes: Callable[[Path], int] = free_bytes_at,
        time_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = database.with_name(f"{database.name}-reserve")
        self._size_bytes = size_bytes
        self._free_bytes = free_bytes
        self._time_s = time_s
        self._next_check_s = 0.0
        self.is_full = False
        """Whether the disk was found full. Stores then refuse what only adds data."""
        self.reusable_bytes: Callable[[], int] = lambda: 0
        """What was deleted inside the database: SQLite fills it again, but does not give it back to the disk."""

    def check(self) -> None:
        """Hold the reserve while space is scarce, and delete it otherwise. Looks at the disk once a second."""
        now_s = self._time_s()
        if now_s < self._next_check_s:
            return
        self._next_check_s = now_s + CHECK_INTERVAL_S
        with contextlib.suppress(OSError):
            free_bytes = self._free_bytes(self._path.parent)
            if free_bytes >= SCARCE_BYTES + self._size_bytes:
                self._path.unlink(missing_ok=True)
                self.is_full = False
                return
            is_held = self._path.exists()
            if free_bytes >= 2 * self._size_bytes:
                if not is_held:
                    self._hold()
                self.is_full = False
            elif free_bytes + self.reusable_bytes() >= 2 * self._size_bytes:
                self.is_full = not is_held and free_bytes < len(_CHUNK)
            elif not is_held:
                self.is_full = True

    def is_needed(self) -> bool:
        """Return whether the disk has less free space than a process needs to start."""
        try:
            return self._free_bytes(self._path.parent) < len(_CHUNK)
        except OSError:
            return False

    def may_grow(self) -> bool:
        """Return whether there is space for what needs some before it frees any, such as the sealed bytes of a message.

        On a full disk half of the reserve's size is left to acks and deletes.
        """
        if not self.is_full:
            return True
        try:
            return self._free_bytes(self._path.parent) + self.reusable_bytes() >= self._size_bytes // 2
        except OSError:
            return False

    def make_space(self) -> bool:
        """Called when a commit found the disk full; return whether it makes sense to try again.

        The first time only new mail is refused, so that the reserve is left for what ends messages. If that is not
        enough, the reserve is deleted.
        """
        self._next_check_s = self._time_s() + CHECK_INTERVAL_S
        if not self.is_full:
            self.is_full = True
            return True
        return self.release()

    def release(self) -> bool:
        """Delete the reserve; return whether that freed space."""
        self.is_full = True
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def _hold(self) -> None:
        """Write the file. Real bytes: a sparse file would reserve nothing."""
        partial = self._path.with_name(f"{self._path.name}.partial")
        try:
            with os.fdopen(os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
                for _ in range(self._size_bytes // len(_CHUNK)):
                    file.write(_CHUNK)
            partial.replace(self._path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
