"""The files of one bucket of writers: which there are, and how a task reads and writes them.

Files are immutable Parquet files inside the lake's Delta tables. The latest committed batch lists the live ones; all
others may be deleted. Files of the stream's state are also cached on the machine's own disk, as Arrow files that can be
mapped into memory, under the name they have in the lake.
"""

import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc, parquet

from restante.fleet.lake.layout import store_address
from restante.fleet.lake.new_files import create_file, open_file
from restante.fleet.stream.state_tables import KINDS, StateTable

ZSTD_LEVEL: Final = 1
ROWS_PER_GROUP: Final = 65_536  # what is read at least to find one row again
EPOCH: Final = date(1970, 1, 1)
DAY_MS: Final = 86_400_000
DICTIONARY: Final = [
    "kind",
    "writer",
    "message_kind",
    "code",
    "node",
    "source_file",
    "reason",
    "session_tag",
    "event",
    "verdict",
    "recipient_verdict",
    "placement",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """A file of the lake. `name` is relative to the root; `first` and `last` are its lowest and highest event id."""

    name: str
    rows: int
    size_bytes: int = 0
    level: int = 0
    first: str = ""
    last: str = ""
    day: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The files of the writers whose ids hash to one bucket, by kind; the oldest file first."""

    events: tuple[FileRef, ...] = ()
    arrivals: tuple[FileRef, ...] = ()
    quarantine: tuple[FileRef, ...] = ()
    repeats: tuple[FileRef, ...] = ()
    seen: tuple[FileRef, ...] = ()
    sessions: tuple[FileRef, ...] = ()
    numbers: tuple[FileRef, ...] = ()
    forgotten: tuple[FileRef, ...] = ()
    bases: tuple[FileRef, ...] = ()

    def refs(self, kind: str) -> tuple[FileRef, ...]:
        refs: tuple[FileRef, ...] = getattr(self, kind)
        return refs

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Bucket":
        return cls(**{kind: tuple(FileRef(**one) for one in raw.get(kind, ())) for kind in KINDS})


@contextmanager
def background_sync() -> Iterator[Callable[[int], None]]:
    """Yield a `BucketWriter.sync` that syncs in a thread. At the end all files are on disk, or an error is raised."""
    under_way: list[Future[None]] = []
    with ThreadPoolExecutor(1, thread_name_prefix="restante-sync") as thread:
        yield lambda descriptor: under_way.append(thread.submit(_sync_and_close, os.dup(descriptor)))
    for each in under_way:
        each.result()


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class BucketWriter:
    """Reads and writes the files of one bucket of the lake at `root`.

    `sync` gets each local file's descriptor when all of it is written; before a commit names the file it must be on
    disk.
    """

    root: str
    bucket: int
    cache: Path
    sync: Callable[[int], None] = os.fsync

    def write_table(self, what: str, table: Any, *, level: int = 0) -> tuple[FileRef, ...]:
        """Write rows that are in order of their event ids: a file for each day, or one; none for no rows.

        New rows are compressed quickly, merged ones better: they stay for longer.
        """
        if not len(table):
            return ()
        kind = KINDS[what]
        if "day" not in kind.partition:
            return (self._write_part(kind, table, level, None),)
        days = table["at_ms"].to_numpy() // DAY_MS
        return tuple(
            self._write_part(kind, _where(table, days == day), level, str(EPOCH + timedelta(days=day)))
            for day in np.unique(days).tolist()
        )

    def write_state(self, what: str, table: Any) -> tuple[FileRef, ...]:
        return self.write_parts(what, [table], level=0)

    def write_parts(self, what: str, parts: Iterable[Any], *, level: int) -> tuple[FileRef, ...]:
        """Write one state file of tables that are in memory one at a time; each is a row group."""
        there = filter(len, parts)
        first = next(there, None)
        if first is None:
            return ()
        kind, rows = KINDS[what], 0
        name = self._new_name(kind, None)
        with create_file(self.root, name, sync=self.sync) as file, _cache_file(self._cached(name)) as cached:
            with (
                parquet.ParquetWriter(
                    file, kind.stored, compression="lz4", use_dictionary=False, write_statistics=False
                ) as sink,
                ipc.new_file(cached, first.schema) as cache,
            ):
                for part in chain([first], there):
                    sink.write_table(kind.to_stored(part))
                    cache.write_table(part.combine_chunks())
                    rows += len(part)
            size_bytes = file.tell()
        return (FileRef(name=name, rows=rows, size_bytes=size_bytes, level=level),)

    def read_state(self, ref: FileRef) -> Any:
        """A state file, mapped into memory; fetched from the lake where this machine has no copy."""
        path = self._cached(ref.name)
        if not path.exists():
            kind = KINDS[_kind_of(ref.name)]
            with (
                self.open_table(ref) as file,
                _cache_file(path) as cached,
                ipc.new_file(cached, kind.schema) as sink,
            ):
                for number in range(file.num_row_groups):
                    sink.write_table(kind.from_stored(file.read_row_group(number)).combine_chunks())
        return ipc.open_file(pa.memory_map(str(path))).read_all()

    def read_table(self, ref: FileRef, columns: Sequence[str] | None = None) -> Any:
        with self.open_table(ref) as file:
            return file.read(columns)

    def open_table(self, ref: FileRef) -> parquet.ParquetFile:
        return parquet.ParquetFile(open_file(self.root, ref.name))

    def drop_cached(self, keep: Bucket) -> None:
        """Delete cached state files of this bucket that `keep` does not name."""
        wanted = {self._cached(ref.name).name for kind in KINDS for ref in keep.refs(kind)}
        for path in self.cache.glob(f"*-{self.bucket:04d}-*.arrow"):
            if path.name not in wanted:
                path.unlink(missing_ok=True)

    def _write_part(self, kind: StateTable, table: Any, level: int, day: str | None) -> FileRef:
        name = self._new_name(kind, day)
        with create_file(self.root, name, sync=self.sync) as file:
            parquet.write_table(
                kind.to_stored(table),
                file,
                compression="zstd" if level else "lz4",
                compression_level=ZSTD_LEVEL if level else None,
                row_group_size=ROWS_PER_GROUP,
                use_dictionary=[column for column in DICTIONARY if column in table.column_names],
                write_statistics=["event_id"],
                write_page_checksum=True,
            )
            size_bytes = file.tell()
        ids = table["event_id"]
        first, last = ("" if ids[place].as_py() is None else ids[place].as_py().hex() for place in (0, len(ids) - 1))
        return FileRef(name=name, rows=len(table), size_bytes=size_bytes, level=level, first=first, last=last, day=day)

    def _cached(self, name: str) -> Path:
        return self.cache / f"{name.rpartition('/')[2].removesuffix('.parquet')}.arrow"

    def _new_name(self, kind: StateTable, day: str | None) -> str:
        # Random: what tasks of a killed run still write never meets what its successor writes.
        folder = kind.folder if day is None else f"{kind.folder}/day={day}"
        return f"{folder}/{kind.name}-{self.bucket:04d}-{secrets.token_hex(8)}.parquet"


def _where(table: Any, flags: Any) -> Any:
    return table if flags.all() else table.filter(pa.array(flags))


def _kind_of(name: str) -> str:
    return name.rpartition("/")[2].partition("-")[0]


def default_cache(root: str) -> Path:
    """One directory a lake, on a disk that Spark gives this executor. It may be deleted between two batches."""
    lake = "".join(letter if letter.isalnum() else "_" for letter in store_address(root))[-100:]
    disk = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).partition(",")[0]
    return Path(disk, f"restante-state-{os.getuid()}", lake)


@contextmanager
def _cache_file(path: Path) -> Iterator[Any]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()


def sort_by_event(table: Any) -> Any:
    return table.take(pc.sort_indices(table, sort_keys=[("event_id", "ascending")]))


def rewrite_without(
    writer: BucketWriter,
    what: str,
    refs: Iterable[FileRef],
    drop: Callable[[Any], Any],
    concerned: Callable[[FileRef], bool],
) -> tuple[tuple[FileRef, ...], list[Any]]:
    """Return the files without the rows that `drop` is true for, and these rows. Files not `concerned` stay unread."""
    kept: list[FileRef] = []
    dropped: list[Any] = []
    for ref in refs:
        if not concerned(ref):
            kept.append(ref)
            continue
        table = writer.read_table(ref)
        mask = drop(table)
        if not pc.any(mask).as_py():
            kept.append(ref)
            continue
        dropped.append(table.filter(mask))
        kept += writer.write_table(what, table.filter(pc.invert(mask)), level=ref.level)
    return tuple(kept), dropped
