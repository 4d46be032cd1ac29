"""A disk of fixed size for SQLite: a write that would exceed it fails as on a full disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

_NAME = "restante-small-disk"


class SmallDisk:
    """All files of one directory share `capacity_bytes`; None is as much as there is."""

    def __init__(self, directory: Path, capacity_bytes: int | None = None) -> None:
        self.directory = directory
        self.capacity_bytes = capacity_bytes

    @contextmanager
    def plugged_in(self) -> Iterator[None]:
        """Make SQLite open its files on this disk."""
        system = _FileSystem(self)
        try:
            yield
        finally:
            system.unregister()

    def used_bytes(self) -> int:
        # The -shm file is in memory mapped pages that SQLite writes past this file system.
        return sum(path.stat().st_size for path in self.directory.iterdir() if not path.name.endswith("-shm"))

    def free_bytes(self, _directory: Path) -> int:
        return 1 << 40 if self.capacity_bytes is None else max(0, self.capacity_bytes - self.used_bytes())


class _FileSystem(apsw.VFS):
    def __init__(self, disk: SmallDisk) -> None:
        self._disk = disk
        self._below = apsw.vfs_names()[0]  # the default until this one is registered
        super().__init__(_NAME, base=self._below, makedefault=True)

    def excepthook(self, *_: object) -> bool:
        """Ignore failures that SQLite cannot report to its caller."""
        return True

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return _File(self._disk, self._below, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: SmallDisk, below: str, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._is_log = path.endswith("-wal")
        super().__init__(below, name, flags)

    def excepthook(self, *_: object) -> bool:
        return True

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        # Only the log is refused: SQLite ignores a checkpoint that fails, but APSW would raise its exception after the
        # commit. What a checkpoint adds to the file still counts.
        grown = offset + len(data) - self.xFileSize() if self._is_log else 0
        if grown > 0 and grown > self._disk.free_bytes(self._disk.directory):
            raise apsw.FullError("no space left on the small disk")
        super().xWrite(data, offset)
