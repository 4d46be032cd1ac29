"""Where a fleet's data lies: segments come in, tables go out, all under one root that may be any Hadoop path.

Only names are decided here, and how a directory takes the place of another.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from restante.model.error_codes import Code
from restante.model.errors import RestanteError

SEGMENTS: Final = "segments"
TABLES: Final = "tables"
STREAM: Final = "stream"
EVENTS_TABLE: Final = "events"
QUARANTINE_TABLE: Final = "quarantine"
ARRIVALS_TABLE: Final = "arrivals"
DAY: Final = "day"
"""Tables of events are divided by the UTC day of the event."""


@dataclass(frozen=True, slots=True)
class Lake:
    """`root` is a directory here, or an address such as `hdfs://host/restante` or `s3a://bucket/restante`.

    `state` is where the stream's own files are, if not in the lake: they have to be on a disk that can be locked and
    mapped into memory.
    """

    root: str
    state: Path | None = None

    @property
    def segments(self) -> str:
        return self._under(SEGMENTS)

    @property
    def tables(self) -> str:
        return self._under(TABLES)

    def table(self, name: str) -> str:
        return self._under(TABLES, name)

    @property
    def local_stream(self) -> Path:
        """The stream's own files, in a directory that all machines at work on them see under this name."""
        return self.state or local_path(self._under(STREAM))

    @property
    def has_stream(self) -> bool:
        """Whether there is a place for a stream's files."""
        return self.state is not None or is_here(self.root)

    @property
    def local_segments(self) -> Path:
        """The segments as a directory of this machine."""
        return local_path(self.segments)

    def _under(self, *names: str) -> str:
        return "/".join([self.root.rstrip("/") or "/", *names])


def is_here(path: str) -> bool:
    """Whether a path means this machine: it has no scheme, or `file`."""
    return urlsplit(path).scheme in ("", "file")


def local_path(path: str) -> Path:
    """The directory of this machine that a path means."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme:
        raise RestanteError(f"{path} is not on this machine, and has to be", code=Code.NOT_FOUND)
    return Path(path).absolute()


def spark_path(path: str) -> str:
    """What Spark is told: a path without a scheme means this machine, whatever the cluster's default is.

    Hadoop takes every character of a path for itself, so nothing is encoded as in a URL.
    """
    return path if urlsplit(path).scheme else f"file://{Path(path).absolute()}"


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's file system for a path, and the path as Hadoop has it."""
    jvm: Any = spark.sparkContext._jvm
    hadoop_path = jvm.org.apache.hadoop.fs.Path(spark_path(path))
    return hadoop_path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), hadoop_path


def exists(spark: SparkSession, path: str) -> bool:
    system, hadoop_path = file_system(spark, path)
    return bool(system.exists(hadoop_path))


def read_file(spark: SparkSession, path: str) -> bytes | None:
    """A small file; None where there is none."""
    system, hadoop_path = file_system(spark, path)
    if not system.exists(hadoop_path):
        return None
    stream = system.open(hadoop_path)
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()


def write_file(spark: SparkSession, path: str, raw: bytes) -> None:
    """A small file in a place where there is none; it has its name when it is whole."""
    system, hadoop_path = file_system(spark, path)
    _, draft = file_system(spark, f"{path.rpartition('/')[0]}/.{path.rpartition('/')[2]}.partial")
    stream = system.create(draft, True)
    try:
        stream.write(raw)
    finally:
        stream.close()
    system.rename(draft, hadoop_path)


def remove_file(spark: SparkSession, path: str) -> None:
    system, hadoop_path = file_system(spark, path)
    system.delete(hadoop_path, False)
