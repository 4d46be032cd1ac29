"""Lock a directory for one process. The kernel releases the lock when the process ends, however it ends.

The lock file contains a note for other processes. It is valid only while the lock is held.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from restante.model.errors import StoreUnusable

PATIENCE_S: Final = 0.5  # `note_of_holder` takes the lock for an instant, too
LOOK_AGAIN_S: Final = 0.02
MAX_NOTE_BYTES: Final = 4_096


class DirectoryLock:
    """A held lock, see `hold`. `left_note` is that of a holder that was killed; who ends in order leaves none."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.left_note = _note_in(handle)

    def write_note(self, note: dict[str, Any]) -> None:
        """Write the note for processes that find the directory locked. On a full disk they find it without a note."""
        os.ftruncate(self._handle, 0)
        with contextlib.suppress(OSError):
            os.pwrite(self._handle, json.dumps(note).encode(), 0)


@contextlib.contextmanager
def hold(path: Path, *, what: str) -> Iterator[DirectoryLock]:
    """Hold the lock at `path`, creating the file if needed. Raise `StoreUnusable` while another process holds it."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnusable(f"{path.name} cannot be opened: {error.strerror}") from error
    try:
        until = time.monotonic() + PATIENCE_S
        while not _taken(handle, fcntl.LOCK_EX):
            if time.monotonic() >= until:
                raise StoreUnusable(f"{what} is in use by another process; stop that one first")
            time.sleep(LOOK_AGAIN_S)
        lock = DirectoryLock(handle)
        lock.write_note({})
        yield lock
        lock.write_note({})
    finally:
        os.close(handle)


def note_of_holder(path: Path) -> dict[str, Any] | None:
    """Return the note of the process that holds the lock, or None if none does."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnusable(f"{path.name} cannot be read: {error.strerror}") from error
    try:
        if _taken(handle, fcntl.LOCK_SH):
            return None
        return _note_in(handle)
    finally:
        os.close(handle)


def _note_in(handle: int) -> dict[str, Any]:
    try:
        note = json.loads(os.pread(handle, MAX_NOTE_BYTES, 0) or b"{}")
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def _taken(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
