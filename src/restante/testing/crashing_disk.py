"""A disk simulator: the power fails at a chosen write, and what was not synced by then is gone.

Registered as SQLite's default file system while it is in use, it counts what is written, truncated and synced in files
of any name. It knows nothing of what is stored. What a real disk may do with unsynced bytes is reduced to one choice:
of the writes to a file since its last sync, a prefix survives, its length drawn from a seed.
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
    """Nothing can be written any more."""


@dataclass(slots=True)
class _Unsynced:
    """How to undo one change of a file: what it was before, and how long the file was."""

    offset: int
    before: bytes
    size_bytes: int


@dataclass(slots=True)
class CrashingDisk:
    """Power fails at the `fails_at`-th write, truncation or sync; 0 for a disk that only counts."""

    fails_at: int = 0
    seed: int = 0
    operations: int = 0
    is_down: bool = False
    _unsynced: dict[str, list[_Unsynced]] = field(default_factory=dict)

    @contextmanager
    def plugged_in(self) -> Iterator[None]:
        """Every file that SQLite opens inside lies on this disk, and is closed at the end, power or not."""
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
        """One more operation; raises when there is no power for it."""
        self.operations += 1
        if self.operations == self.fails_at:
            self.is_down = True
        if self.is_down:
            raise PowerLost("the power is gone")

    def remember(self, path: str, change: _Unsynced) -> None:
        self._unsynced.setdefault(path, []).append(change)

    def settle(self, path: str) -> None:
        """The file was synced: nothing of it can be lost any more."""
        self._unsynced.pop(path, None)

    def lose_what_was_not_synced(self) -> None:
        """To be called when every file is closed; the disk is then as the next start finds it."""
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
        self._below = apsw.vfs_names()[0]  # the default so far: afterwards that is this one
        super().__init__(_NAME, base=self._below, makedefault=True)

    def excepthook(self, *_: object) -> bool:
        """A failure that SQLite has no way to tell its caller of is told to nobody: the power is gone."""
        return self._disk.is_down

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return _File(self._disk, self._below, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        self._disk.count()
        self._disk.settle(filename)
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
        self._remember(offset, min(offset + len(data), size_bytes))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.count()
        self._remember(newsize, self.xFileSize())
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802, ARG002 - SQLite's name
        """Not passed on: this disk outlives its process anyway, and a real sync would only cost time."""
        self._disk.count()
        self._disk.settle(self._path)

    def _remember(self, start: int, end: int) -> None:
        before = super().xRead(end - start, start) if end > start else b""
        self._disk.remember(self._path, _Unsynced(offset=start, before=before, size_bytes=self.xFileSize()))
