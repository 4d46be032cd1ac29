"""Segments on an object store, read through pyarrow: Spark needs no file system for it, and no packages.

A store that fails is no property of a file: `StoreUnusable` stops the job, and the next run reads the file. What is
wrong with the bytes of a file is decided in `segments`.
"""

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession

from restante.fleet.lake.layout import StorePath, no_directory, store_address
from restante.fleet.lake.new_files import first_line
from restante.fleet.spark.map_in_arrow import BatchFunction, tasks_for
from restante.model.errors import StoreUnusable

TAIL_BYTES: Final = 65_536  # the footer of a segment is in it, so that one request is enough
CHUNK_BYTES: Final = 4 * 2**20
_HASHES: Final = pa.schema([("name", pa.string()), ("sha256", pa.string())])


class ObjectFolder:
    """The objects below one prefix, up to the next slash."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._spark = spark
        self._address = address.rstrip("/")
        self._listing: dict[str, tuple[int, int]] = {}
        with store_errors(self._address):
            self._system, self._root = fs.FileSystem.from_uri(store_address(self._address))

    def names(self) -> list[str]:
        with store_errors(self._address):
            found = self._system.get_file_info(fs.FileSelector(self._root, allow_not_found=True))
        self._listing = {
            entry.base_name: (entry.size, entry.mtime_ns) for entry in found if entry.type is fs.FileType.File
        }
        if not found:
            raise no_directory(self._address)
        return sorted(self._listing)

    def listing(self) -> dict[str, tuple[int, int]]:
        self.names()
        return dict(self._listing)

    def status(self, name: str) -> tuple[int, int]:
        return self._listing[name]

    def mark(self, name: str) -> tuple[int, ...]:
        """The store sets the time."""
        return self.status(name)

    def path(self, name: str) -> StorePath:
        return StorePath(f"{self._address}/{name}")

    def size(self, name: str) -> int:
        return self._listing[name][0]

    def opened(self, name: str) -> Any:
        with store_errors(name):
            file = self._system.open_input_file(f"{self._root}/{name}")
        return pa.PythonFile(TailFirstFile(_fetch_from(file, name), file.close, self.size(name)), mode="r")

    def read(self, name: str, limit: int) -> bytes:
        with store_errors(name), self._system.open_input_stream(f"{self._root}/{name}") as stream:
            return bytes(stream.read(limit))

    def hashes(self, names: Sequence[str]) -> dict[str, str]:
        """By one job of Spark's, since whole files have to be read for it."""
        if not names:
            return {}
        numbers = self._spark.range(0, len(names), 1, tasks_for(self._spark, len(names)))
        rows = numbers.mapInArrow(_hash_objects(self._address, list(names)), "name string, sha256 string").collect()
        return {row["name"]: row["sha256"] for row in rows}


class TailFirstFile(io.RawIOBase):
    """A file that `fetch(start, end)` reads. Its end is fetched with the first read: a footer is read backwards."""

    def __init__(self, fetch: Callable[[int, int], bytes], close: Callable[[], object], size: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._close = close
        self._size = size
        self._at = 0
        self._tail_from = max(0, size - TAIL_BYTES)
        self._tail: bytes | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        if self._at >= self._tail_from:
            if self._tail is None:
                self._tail = self._fetch(self._tail_from, self._size)
            piece = self._tail[self._at - self._tail_from : end - self._tail_from]
        else:
            piece = self._fetch(self._at, end)
        self._at += len(piece)
        return piece

    def close(self) -> None:
        if not self.closed:
            self._close()
        super().close()


@contextmanager
def store_errors(name: str) -> Iterator[None]:
    """Say that the store failed. A file that is not there stays `FileNotFoundError`."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnusable(f"{name} cannot be read from the store: {first_line(error)}") from error


def fetch_object(address: str) -> bytes:
    """All bytes of one object, by one request."""
    folder, _, name = address.rpartition("/")
    with store_errors(name):
        system, path = fs.FileSystem.from_uri(store_address(folder))
        with system.open_input_stream(f"{path}/{name}") as stream:
            return bytes(stream.read())


def _fetch_from(file: Any, name: str) -> Callable[[int, int], bytes]:
    def fetch(start: int, end: int) -> bytes:
        with store_errors(name):
            return bytes(file.read_at(end - start, start))

    return fetch


def _hash_objects(address: str, names: Sequence[str]) -> BatchFunction:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        system, root = fs.FileSystem.from_uri(store_address(address))
        for batch in batches:
            wanted = [names[number] for number in batch.column("id").to_pylist()]
            hashes = [_hash(system, f"{root}/{name}") for name in wanted]
            yield pa.RecordBatch.from_arrays([pa.array(wanted), pa.array(hashes)], schema=_HASHES)

    return run


def _hash(system: Any, path: str) -> str:
    digest = hashlib.sha256()
    try:
        with store_errors(path.rpartition("/")[2]), system.open_input_stream(path) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
    except FileNotFoundError:
        return ""  # it was there a moment ago; the next look tells
    return digest.hexdigest()
