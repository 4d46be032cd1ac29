"""One process a directory. The lock is the kernel's: it goes with the process, however that ends.

The lock file also says where the holder can be asked; what it says counts only while the lock is held.
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

PATIENCE_S: Final = 0.5  # whoever only looks whether the lock is held holds it for an instant, too
LOOK_AGAIN_S: Final = 0.02
MAX_NOTE_BYTES: Final = 4_096


class DirectoryLock:
    """Held from `hold` on; see there."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def tell(self, note: dict[str, Any]) -> None:
        """Leave word for those who find the directory in use."""
        raw = json.dumps(note).encode()
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, raw, 0)


@contextlib.contextmanager
def hold(path: Path, *, what: str) -> Iterator[DirectoryLock]:
    """The lock at `path`, made when it is not there; refused while another process has it."""
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
        lock.tell({})
        yield lock
        lock.tell({})
    finally:
        os.close(handle)


def note_of_holder(path: Path) -> dict[str, Any] | None:
    """What the process that holds the lock has left word of; None when nobody holds it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnusable(f"{path.name} cannot be read: {error.strerror}") from error
    try:
        if _taken(handle, fcntl.LOCK_SH):
            return None
        note = json.loads(os.pread(handle, MAX_NOTE_BYTES, 0) or b"{}")
    except ValueError:
        return {}
    finally:
        os.close(handle)
    return note if isinstance(note, dict) else {}


def _taken(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
