"""A disk simulator: power fails at a chosen write, and what was not synced is lost.

While in use it is SQLite's default file system and counts writes, truncations and syncs. A real disk's behaviour with
unsynced bytes is reduced to one choice: of the writes to a file since its last sync, a prefix of random length
survives.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import apsw

_NAME: Final = "restante-crashing-disk"


class PowerLost(apsw.IOError):
    """The power failed; nothing can be written any more."""


@dataclass(slots=True)
class _Unsynced:
    """How to undo one change of a file: the bytes before it, and the file's length."""

    offset: int
    before: bytes
    size_bytes: int


@dataclass(slots=True)
class CrashingDisk:
    """Power fails at operation number `fails_at` (write, truncation or sync). With 0, operations are only counted."""

    fails_at: int = 0
    seed: int = 0
    operations: int = 0
    is_down: bool = False
    _unsynced: dict[str, list[_Unsynced]] = field(default_factory=dict)

    @contextmanager
    def plugged_in(self) -> Iterator[None]:
        """Put every file that SQLite opens inside on this disk, and close it at the end."""
        system = _FileSystem(self)
        try:
            yield
        finally:
            for connection in apsw.connections():
                if connection.open_vfs == _NAME:
                    with suppress(PowerLost):
                        connection.close(force=True)
            system.unregister()

    def count(self) -> None:
        """Count one operation. Raise `PowerLost` if the power has failed."""
        self.operations += 1
        if self.operations == self.fails_at:
            self.is_down = True
        if self.is_down:
            raise PowerLost("the power failed")

    def record(self, path: str, change: _Unsynced) -> None:
        self._unsynced.setdefault(path, []).append(change)

    def mark_synced(self, path: str) -> None:
        """Record that the file was synced: none of it can be lost any more."""
        self._unsynced.pop(path, None)

    def lose_unsynced(self) -> None:
        """Undo unsynced changes. Call it when every file is closed; the disk is then as the next start finds it."""
        dice = random.Random(self.seed)  # noqa: S311 - reproducible on purpose
        for path, changes in self._unsynced.items():
            if Path(path).exists():
                survivors = dice.randint(0, len(changes))
                _undo(Path(path), changes[survivors:])
        self._unsynced.clear()


def _undo(path: Path, changes: list[_Unsynced]) -> None:
    with path.open("r+b") as file:
        for change in reversed(changes):
            file.seek(change.offset)
            file.write(change.before)
            file.truncate(change.size_bytes)


class _FileSystem(apsw.VFS):
    def __init__(self, disk: CrashingDisk) -> None:
        self._disk = disk
        self._below = apsw.vfs_names()[0]  # the default until this one is registered
        super().__init__(_NAME, base=self._below, makedefault=True)

    def excepthook(self, *_: object) -> bool:
        """Ignore failures that SQLite cannot report to its caller."""
        return self._disk.is_down

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return _File(self._disk, self._below, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        self._disk.count()
        self._disk.mark_synced(filename)
        super().xDelete(filename, syncdir)


class _File(apsw.VFSFile):
    def __init__(self, disk: CrashingDisk, below: str, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        super().__init__(below, name, flags)

    def excepthook(self, *_: object) -> bool:
        return self._disk.is_down

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.count()
        size_bytes = self.xFileSize()
        self._record(offset, min(offset + len(data), size_bytes))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.count()
        self._record(newsize, self.xFileSize())
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802, ARG002 - SQLite's name
        """Record the sync without calling the file system: the real disk does not fail, and a sync would only cost
        time."""
        self._disk.count()
        self._disk.mark_synced(self._path)

    def _record(self, start: int, end: int) -> None:
        before = super().xRead(end - start, start) if end > start else b""
        self._disk.record(self._path, _Unsynced(offset=start, before=before, size_bytes=self.xFileSize()))
