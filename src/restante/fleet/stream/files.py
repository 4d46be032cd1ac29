"""Which files a stream is made of, and how one is written: whole, on disk, and under a name that nobody used before.

A file is never changed. What is true is what the latest commit names (stream/commits); everything else is rubbish.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc, parquet

FAN: Final = 8
"""So many files of one level become one of the next: a row is copied once a level, and few files are left."""
MERGED_ROWS_AT_MOST: Final = 1_000_000  # of a table, what one task may hold in memory besides its own rows
ZSTD_LEVEL: Final = 1
ROWS_PER_GROUP: Final = 65_536  # what is read at least to find one row again
_DICTIONARY: Final = [
    "kind",
    "writer",
    "message_kind",
    "code",
    "node",
    "source_file",
    "reason",
    "told_tag",
    "session_tag",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """A file under the stream's directory. `first` and `last`: its lowest and highest event id, as hex."""

    name: str
    rows: int
    level: int = 0
    first: str = ""
    last: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What there is of the writers whose ids hash to one bucket; the oldest file first."""

    events: tuple[FileRef, ...] = ()
    arrivals: tuple[FileRef, ...] = ()
    quarantine: tuple[FileRef, ...] = ()
    repeats: tuple[FileRef, ...] = ()
    seen: tuple[FileRef, ...] = ()
    sessions: tuple[FileRef, ...] = ()
    numbers: tuple[FileRef, ...] = ()
    forgotten: tuple[FileRef, ...] = ()

    def names(self) -> set[str]:
        return {one.name for kind in KINDS for one in getattr(self, kind)}

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Bucket":
        return cls(**{kind: tuple(FileRef(**one) for one in raw.get(kind, ())) for kind in KINDS})


KINDS: Final = ("events", "arrivals", "quarantine", "repeats", "seen", "sessions", "numbers", "forgotten")


@contextmanager
def synced_meanwhile() -> Iterator[Callable[[int], None]]:
    """A `Desk.sync` that keeps nobody waiting: at the end all files are on disk, or what one of them met is raised."""
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
class Desk:
    """Where the files of one bucket and one commit are written: `folder` is made under `root` when it is needed.

    `sync` is given each file's descriptor when all of it is written; before a commit names the file it must be on disk.
    """

    root: Path
    folder: str
    bucket: int
    sync: Callable[[int], None] = os.fsync

    def write_table(self, what: str, table: Any, *, level: int = 0) -> tuple[FileRef, ...]:
        """A Parquet file of rows in order of their event ids; no file for no rows.

        What is new is packed quickly; better, when it is merged with others and stays for longer.
        """
        if not len(table):
            return ()
        path, name = self._new(what, "parquet")
        columns = [column for column in _DICTIONARY if column in table.column_names]
        with path.open("wb") as file:
            parquet.write_table(
                table,
                file,
                compression="zstd" if level else "lz4",
                compression_level=ZSTD_LEVEL if level else None,
                row_group_size=ROWS_PER_GROUP,
                use_dictionary=columns,
                write_statistics=["event_id"],
                write_page_checksum=True,
            )
            self._settle(file)
        ids = table["event_id"]
        first, last = ("" if ids[place].as_py() is None else ids[place].as_py().hex() for place in (0, len(ids) - 1))
        return (FileRef(name=name, rows=len(table), level=level, first=first, last=last),)

    def write_state(self, what: str, table: Any) -> tuple[FileRef, ...]:
        """An Arrow file that can be mapped into memory."""
        return self.write_parts(what, [table], level=0)

    def write_parts(self, what: str, parts: Iterable[Any], *, level: int) -> tuple[FileRef, ...]:
        """The same of tables that are in memory one at a time; each is a batch of its own."""
        there = filter(len, parts)
        first = next(there, None)
        if first is None:
            return ()
        path, name = self._new(what, "arrow")
        rows = 0
        with path.open("wb") as file:
            with ipc.new_file(file, first.schema) as sink:
                for part in chain([first], there):
                    sink.write_table(part.combine_chunks())
                    rows += len(part)
            self._settle(file)
        return (FileRef(name=name, rows=rows, level=level),)

    def read_state(self, ref: FileRef) -> Any:
        return ipc.open_file(pa.memory_map(str(self.root / ref.name))).read_all()

    def read_table(self, ref: FileRef, columns: Sequence[str] | None = None) -> Any:
        return parquet.read_table(self.root / ref.name, columns=columns, partitioning=None)

    def open_table(self, ref: FileRef) -> parquet.ParquetFile:
        return parquet.ParquetFile(self.root / ref.name)

    def _new(self, what: str, suffix: str) -> tuple[Path, str]:
        # Dice in the name: what a killed run's tasks still write never meets what its successor writes.
        name = f"{self.folder}/{self.bucket:04d}-{what}-{secrets.token_hex(6)}.{suffix}"
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path, name

    def _settle(self, file: Any) -> None:
        file.flush()
        self.sync(file.fileno())


def sort_by_event(table: Any) -> Any:
    return table.take(pc.sort_indices(table, sort_keys=[("event_id", "ascending")]))


def with_fewer_files(desk: Desk, what: str, refs: tuple[FileRef, ...]) -> tuple[FileRef, ...]:
    """The same rows in fewer files, where there are many small ones."""

    def merge(old: Sequence[FileRef], level: int) -> tuple[FileRef, ...]:
        merged = pa.concat_tables([desk.read_table(ref) for ref in old])
        return desk.write_table(what, sort_by_event(merged), level=level)

    return merged_by_level(refs, merge, rows_at_most=MERGED_ROWS_AT_MOST)


def merged_by_level(
    refs: tuple[FileRef, ...],
    merge: Callable[[Sequence[FileRef], int], tuple[FileRef, ...]],
    *,
    rows_at_most: int | None = None,
) -> tuple[FileRef, ...]:
    """Where FAN neighbours of one level have come together, `merge` makes them one file of the next."""
    found = list(refs)
    while True:
        place = _full_level(found, rows_at_most)
        if place is None:
            return tuple(found)
        old = found[place : place + FAN]
        found[place : place + FAN] = merge(old, old[0].level + 1)


def _full_level(refs: Sequence[FileRef], rows_at_most: int | None) -> int | None:
    for place in range(len(refs) - FAN + 1):
        group = refs[place : place + FAN]
        is_small = rows_at_most is None or sum(ref.rows for ref in group) <= rows_at_most
        if is_small and len({ref.level for ref in group}) == 1:
            return place
    return None


def rewritten(
    desk: Desk, what: str, refs: Iterable[FileRef], drop: Callable[[Any], Any], concerned: Callable[[FileRef], bool]
) -> tuple[tuple[FileRef, ...], list[Any]]:
    """The files without the rows that `drop` is true for, and these rows; files not `concerned` are not opened."""
    kept: list[FileRef] = []
    dropped: list[Any] = []
    for ref in refs:
        if not concerned(ref):
            kept.append(ref)
            continue
        table = desk.read_table(ref)
        mask = drop(table)
        if not pc.any(mask).as_py():
            kept.append(ref)
            continue
        dropped.append(table.filter(mask))
        kept += desk.write_table(what, table.filter(pc.invert(mask)), level=ref.level)
    return tuple(kept), dropped
