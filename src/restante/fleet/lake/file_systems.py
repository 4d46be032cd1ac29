"""The directory that segments lie in: on this machine, on an object store, or one that only Hadoop's file systems know.

Decides how its files are listed, opened and hashed, and how failures are reported. `segments` decides what a segment
is. Object stores are read through pyarrow (object_folder), other addresses through Spark's JVM.
"""

import errno
import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from restante.fleet.lake.layout import StorePath, file_system, is_here, is_object_store, local_path, no_directory
from restante.fleet.lake.new_files import list_files
from restante.fleet.lake.object_folder import ObjectFolder, TailFirstFile
from restante.model.error_codes import Code
from restante.model.errors import EnvironmentUnsuitable, RestanteError, StoreUnusable

HASHING_THREADS: Final = 4
HASHED_AT_ONCE: Final = 1_000  # files in one job: their paths are part of its plan
_SPARKS_PATTERNS: Final = "*?[]{}^\\,"


Listing = dict[str, tuple[int, int]]
"""Every file of a directory with its `status`: its size and the time of its last change, in its file system's unit."""


class Folder(Protocol):
    def names(self) -> list[str]: ...
    def status(self, name: str) -> tuple[int, int]: ...

    def mark(self, name: str) -> tuple[int, ...]:
        """Return what is another value once the bytes of the file were another, as far as the file system tells. Of a
        store it is as old as the last `names`."""
        ...

    def listing(self) -> Listing: ...
    def path(self, name: str) -> Path | StorePath: ...
    def size(self, name: str) -> int: ...
    def opened(self, name: str) -> Any: ...
    def read(self, name: str, limit: int) -> bytes: ...
    def hashes(self, names: Sequence[str]) -> dict[str, str]: ...


class LocalFolder:
    """`OSError` is what its methods raise for a single file."""

    def __init__(self, directory: Path) -> None:
        self._given = directory
        self._directory = directory.absolute()

    def names(self) -> list[str]:
        try:
            return sorted(path.name for path in self._directory.iterdir())
        except (NotADirectoryError, FileNotFoundError):
            raise no_directory(str(self._given)) from None
        except OSError as error:
            raise StoreUnusable(f"{self._given} cannot be read: {error.strerror}") from error

    def listing(self) -> Listing:
        found: Listing = {}
        for name in self.names():
            with suppress(FileNotFoundError):  # gone again
                found[name] = self.status(name)
        return found

    def status(self, name: str) -> tuple[int, int]:
        found = self.path(name).stat()
        return found.st_size, found.st_mtime_ns

    def mark(self, name: str) -> tuple[int, ...]:
        """No program can put back the time of the last change (ctime)."""
        found = self.path(name).stat()
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino

    def path(self, name: str) -> Path:
        return self._directory / name

    def size(self, name: str) -> int:
        return self.path(name).stat().st_size

    def opened(self, name: str) -> Any:
        path = self.path(name)
        if not path.is_dir() and path.exists() and not path.is_file():
            raise OSError(
                errno.EINVAL, "it is no regular file"
            )  # a pipe would wait for its writer, a device never ends
        return path.open("rb")

    def read(self, name: str, limit: int) -> bytes:
        with self.opened(name) as file:
            return bytes(file.read(limit))

    def hashes(self, names: Sequence[str]) -> dict[str, str]:
        with ThreadPoolExecutor(HASHING_THREADS) as threads:
            return dict(zip(names, threads.map(self._hash, names), strict=True))

    def _hash(self, name: str) -> str:
        try:
            with self.opened(name) as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""  # it was there a moment ago; the next look tells


class HadoopFolder:
    def __init__(self, spark: SparkSession, address: str) -> None:
        self._spark = spark
        self._address = address.rstrip("/")
        self._listing: Listing = {}
        with _translated(self._address):
            self._system, self._root = file_system(spark, self._address)

    def names(self) -> list[str]:
        with _translated(self._address):
            if not self._system.exists(self._root) or not self._system.getFileStatus(self._root).isDirectory():
                raise no_directory(self._address)
            self._listing = {
                status.getPath().getName(): (int(status.getLen()), int(status.getModificationTime()))
                for status in self._system.listStatus(self._root)
            }
        return sorted(self._listing)

    def listing(self) -> Listing:
        self.names()
        return dict(self._listing)

    def status(self, name: str) -> tuple[int, int]:
        return self._listing[name]

    def mark(self, name: str) -> tuple[int, ...]:
        return self.status(name)

    def path(self, name: str) -> StorePath:
        return StorePath(f"{self._address}/{name}")

    def size(self, name: str) -> int:
        return self._listing[name][0]

    def opened(self, name: str) -> Any:
        with _translated_for_one(name):
            stream = self._open(name)
        return pa.PythonFile(TailFirstFile(_fetch_from(stream), stream.close, self.size(name)), mode="r")

    def read(self, name: str, limit: int) -> bytes:
        with _translated_for_one(name):
            stream = self._open(name)
            try:
                return bytes(stream.readNBytes(limit))
            finally:
                stream.close()

    def hashes(self, names: Sequence[str]) -> dict[str, str]:
        """By a job of Spark's, since whole files have to be read for it."""
        found: dict[str, str] = {}
        for start in range(0, len(names), HASHED_AT_ONCE):
            paths = [escaped(str(self.path(name))) for name in names[start : start + HASHED_AT_ONCE]]
            files = self._spark.read.format("binaryFile").option("ignoreCorruptFiles", "true").load(paths)
            rows = files.select("path", sf.sha2("content", 256).alias("sha256")).collect()
            found |= {_name_of(row["path"]): row["sha256"] for row in rows}
        return found

    def _open(self, name: str) -> Any:
        jvm: Any = self._spark.sparkContext._jvm
        return self._system.open(jvm.org.apache.hadoop.fs.Path(self._root, name))


def _fetch_from(stream: Any) -> Callable[[int, int], bytes]:
    def fetch(start: int, end: int) -> bytes:
        with _translated_for_one("a segment"):
            stream.seek(start)
            return bytes(stream.readNBytes(end - start))

    return fetch


def open_folder(where: Path | str, spark: SparkSession | None) -> Folder:
    """`spark` is needed for what is not on this machine."""
    if isinstance(where, Path) or is_here(where):
        is_address = isinstance(where, str) and where.startswith("file:")
        return LocalFolder(local_path(str(where)) if is_address else Path(where))
    if spark is None:
        raise RestanteError(f"{where} is not on this machine, and has to be", code=Code.NOT_FOUND)
    return ObjectFolder(spark, where) if is_object_store(where) else HadoopFolder(spark, where)


def exists(spark: SparkSession, path: str) -> bool:
    if is_object_store(path):
        return bool(list_files(path))
    system, hadoop_path = file_system(spark, path)
    return bool(system.exists(hadoop_path))


def escaped(path: str) -> str:
    """Spark takes a path for a pattern, so the characters that make patterns are escaped."""
    return "".join(f"\\{letter}" if letter in _SPARKS_PATTERNS else letter for letter in path)


def _name_of(address: str) -> str:
    return address.rpartition("/")[2]


@contextmanager
def _translated(where: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        kind, text = _java_words(error)
        if kind == "UnsupportedFileSystemException":
            raise EnvironmentUnsuitable(
                f"{where}: Spark has no file system for it ({text}); name its package in spark.jars.packages"
            ) from error
        raise StoreUnusable(f"{where} cannot be read: {text}") from error


@contextmanager
def _translated_for_one(name: str) -> Iterator[None]:
    """Raise the errors of a local file, so that a bad file is reported the same way everywhere."""
    try:
        yield
    except Py4JJavaError as error:
        _, text = _java_words(error)
        raise OSError(None, text, name) from error


def _java_words(error: Py4JJavaError) -> tuple[str, str]:
    """The kind of a Java exception and the first line of its message."""
    java: Any = error.java_exception
    kind = str(java.getClass().getSimpleName())
    text = str(java.getMessage() or kind).partition("\n")[0]
    return kind, text
