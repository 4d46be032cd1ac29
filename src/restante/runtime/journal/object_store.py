"""Segments into object stores and Hadoop's file systems, without a JVM of our own: through pyarrow's file systems.

Decides how a file is closed there: stores that show an object only once it is whole take it in one put, the others get
a draft that is renamed. Credentials are the store's own affair: environment, profile or machine role.
"""

import contextlib
import os
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from restante.model.errors import StoreUnusable
from restante.runtime.journal.segment_directory import DirectoryDepot, SegmentStore, check_depot, is_store, local_path

PUT_IS_ATOMIC: Final = frozenset({"s3", "gcs", "abfs"})
"""Names that pyarrow gives to file systems whose objects appear when they are complete, and not before."""
_OTHER_NAMES: Final = {"s3a": "s3", "gcs": "gs"}  # Hadoop's names for what pyarrow calls otherwise


class StoreDepot:
    """A directory of one of pyarrow's file systems."""

    def __init__(self, system: Any, path: str) -> None:
        self._system = system
        self._path = path.rstrip("/")

    def put(self, name: str, raw: bytes) -> None:
        try:
            if self._system.type_name in PUT_IS_ATOMIC:
                self._write(f"{self._path}/{name}", raw)
            else:
                self._write_and_rename(name, raw)
        except (OSError, pa.ArrowException) as error:
            raise StoreUnusable(f"a journal segment cannot be written to the store: {error}") from error

    def _write_and_rename(self, name: str, raw: bytes) -> None:
        self._system.create_dir(self._path, recursive=True)
        draft, final = f"{self._path}/.{name}.{os.getpid()}.partial", f"{self._path}/{name}"
        try:
            self._write(draft, raw)
            if self._system.get_file_info(final).type is not fs.FileType.NotFound:
                # HDFS renames onto nothing that is there. Dying in between is no loss: it is not marked as shipped yet.
                self._system.delete_file(final)
            self._system.move(draft, final)
        except BaseException:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._system.delete_file(draft)
            raise

    def _write(self, path: str, raw: bytes) -> None:
        with self._system.open_output_stream(path) as stream:
            stream.write(raw)


class DistantDepot:
    """A store that is looked up when it is first needed, since that alone may take long or fail for now."""

    def __init__(self, address: str) -> None:
        scheme = urlsplit(address).scheme
        self._address = _OTHER_NAMES.get(scheme, scheme) + address[len(scheme) :]
        self._depot: StoreDepot | None = None

    def put(self, name: str, raw: bytes) -> None:
        if self._depot is None:
            try:
                self._depot = StoreDepot(*fs.FileSystem.from_uri(self._address))
            except (OSError, pa.ArrowException) as error:
                first_line = str(error).partition("\n")[0]
                raise StoreUnusable(f"the store for journal segments cannot be reached: {first_line}") from error
        self._depot.put(name, raw)


def open_depot(text: str, *, key: str = "ship_to") -> SegmentStore:
    """The depot an absolute path or an address names; `key` is what it is called in an error."""
    check_depot(key, text)
    return DistantDepot(text) if is_store(text) else DirectoryDepot(local_path(text))
