"""Disk space kept in reserve, so that what frees space still works when the disk is full.

At a client, draining and acks delete payloads; at a node, recipients delete what they fetched and reaping deletes what
expired. Each of these commits needs space in the write-ahead log first. While little space is free, a file of fixed
size stands beside the database. When a commit finds the disk full, stores refuse new mail until there is space again,
and if that is not enough, the file is deleted. With plenty of space there is no file.
"""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

RESERVE_BYTES: Final = 16 * 1024 * 1024
"""Twice what a client's write-ahead log takes until its checkpoint, which then copies its pages into the file."""
SCARCE_BYTES: Final = 1024 * 1024 * 1024  # below this much free space the reserve is held
CHECK_INTERVAL_S: Final = 1.0
_CHUNK: Final = bytes(1024 * 1024)


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
            elif free_bytes >= 2 * self._size_bytes:
                if not self._path.exists():
                    self._hold()
                self.is_full = False
            elif not self._path.exists():
                self.is_full = True

    def is_needed(self) -> bool:
        """Return whether the disk has less free space than SQLite needs to open a file."""
        try:
            return self._free_bytes(self._path.parent) < len(_CHUNK)
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
