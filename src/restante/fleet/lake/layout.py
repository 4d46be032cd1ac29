"""Where a fleet's data lies: segments come in, tables go out, all under one root that may be any Hadoop path.

Only names are decided here, and how a directory takes the place of another.
"""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from restante.model.error_codes import Code
from restante.model.errors import RestanteError, StoreUnusable

SEGMENTS: Final = "segments"
TABLES: Final = "tables"
STREAM: Final = "stream"
OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss"})
DAY: Final = "day"
"""Tables of events are divided by the UTC day of the event."""


@dataclass(frozen=True, slots=True)
class Lake:
    """`root` is a directory here, or an address such as `s3://bucket/restante`."""

    root: str

    @property
    def segments(self) -> str:
        return self._under(SEGMENTS)

    @property
    def tables(self) -> str:
        return self._under(TABLES)

    def table(self, name: str) -> str:
        return self._under(TABLES, name)

    def stream_table(self, name: str) -> str:
        """A table of the stream's own."""
        return self._under(STREAM, name)

    @property
    def local_segments(self) -> Path:
        """The segments as a directory of this machine."""
        return local_path(self.segments)

    def _under(self, *names: str) -> str:
        return "/".join([self.root.rstrip("/") or "/", *names])


@dataclass(frozen=True, slots=True)
class StorePath:
    """A file by its whole address; `name` as a Path has it."""

    address: str

    @property
    def name(self) -> str:
        return self.address.rpartition("/")[2]

    def __str__(self) -> str:
        return self.address


def is_here(path: str) -> bool:
    """Whether a path means this machine: it has no scheme, or `file`."""
    return urlsplit(path).scheme in ("", "file")


def is_object_store(path: str) -> bool:
    """Whether a path is on a store that deltalake and pyarrow know: they read and write it, not Spark's JVM."""
    return urlsplit(path).scheme in OBJECT_STORES


def local_path(path: str) -> Path:
    """The directory of this machine that a path means."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme:
        raise RestanteError(f"{path} is not on this machine, and has to be", code=Code.NOT_FOUND)
    return Path(path).absolute()


def store_address(path: str) -> str:
    """The address as deltalake and pyarrow know it: Hadoop's s3a is their s3, a local path has no scheme."""
    if is_here(path):
        return str(local_path(path))
    return re.sub("^(s3a|gcs)://", lambda found: {"s3a": "s3", "gcs": "gs"}[found[1]] + "://", path)


def spark_path(path: str) -> str:
    """Return the path for Spark. One without a scheme means this machine, whatever the cluster's default is.

    Hadoop takes every character of a path for itself, so nothing is encoded as in a URL.
    """
    return path if urlsplit(path).scheme else f"file://{Path(path).absolute()}"


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's file system for a path, and the path as Hadoop has it."""
    jvm: Any = spark.sparkContext._jvm
    hadoop_path = jvm.org.apache.hadoop.fs.Path(spark_path(path))
    return hadoop_path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), hadoop_path


def check_writable(lake: Lake) -> None:
    """Raise before anything is started, if the lake is on this machine and cannot be written."""
    if not is_here(lake.root):
        return
    root = local_path(lake.root)
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise StoreUnusable(f"{lake.root} cannot be written: {error.strerror}") from error


def no_directory(where: str) -> RestanteError:
    return RestanteError(f"{where} is not a directory; it should hold journal segments", code=Code.NOT_FOUND)
