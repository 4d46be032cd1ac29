"""What changed in the table `events` since the derived tables were last published.

Each batch of the stream says in which files its new events are, and where the rows of contradicted ones went
(stream/batches). From these rows follow the days, messages and sealed bytes whose rows can change; all others stay as
they are. A publication leaves its batch and the version of each table that it wrote.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from restante.fleet.kernels.event_hours import COLUMNS as HOUR_COLUMNS
from restante.fleet.kernels.event_hours import HOURS, hours_of
from restante.fleet.lake.arrow_files import days_in
from restante.fleet.lake.delta import STREAM_RETENTION_H, ConcurrentWriter, DeltaFiles, exists
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.new_files import open_file
from restante.fleet.lake.reading import read_files, schema_of
from restante.fleet.stream.batches import EventChanges, changes_since, open_batches
from restante.fleet.stream.bucket_files import DAY_MS, EPOCH
from restante.fleet.transforms.replicas import KINDS as REPLICA_KINDS
from restante.fleet.transforms.validate import CONFLICT
from restante.model.journal import STATE_AFTER, JournalKind

MOST_ROWS: Final = 10_000_000
"""Changed rows of which the ids fit into the memory of the driver; beyond that all rows of all tables are built."""
PUBLISHED: Final = pa.schema([("n", pa.int64()), ("versions", pa.string())])
"""One row: the batch that was published last, and the version of each derived table as JSON."""
_COLUMNS: Final = (*HOUR_COLUMNS, "message_id", "payload_hash")
_CHANGES_STATE: Final = pa.array([kind.value for kind in STATE_AFTER], pa.string())
_AT_NODES: Final = pa.array([kind.value for kind in REPLICA_KINDS], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Events that came or went, and what they are about, as Arrow arrays without repeats.

    `messages` may hold a null: for events that change a state without naming a message. `absent` are the sealed bytes
    that recipients missed at a node.
    """

    files: EventChanges
    rows: int
    days: frozenset[str]
    kinds: frozenset[str]
    messages: Any
    hashes: Any
    writers: Any
    absent: Any
    gone: Any
    """Ids of the events that went."""
    hours: Any
    """The hours of the events that came (kernels/event_hours), file by file."""


def find_change(lake: Lake, *, since: int) -> Change | None:
    """Return what changed after batch `since`; None if that is not known any more, or too much."""
    files = changes_since(open_batches(lake), since)
    if files is None:
        return None
    ids = _Ids()
    try:
        hours, gone = [], []
        for name in (*files.came, *files.went):
            rows = _rows_of(lake, name)
            ids.add(rows, days_in(name))
            if ids.rows > MOST_ROWS:
                return None
            if name in files.came:
                hours.append(hours_of(rows))
            else:
                gone.append(rows["event_id"])
    except FileNotFoundError:
        return None  # merged into another file since, and deleted
    return ids.change(files, gone=_unique(gone), hours=pa.concat_tables([HOURS.empty_table(), *hours]))


class Published(NamedTuple):
    """The batch of a publication, and the version of each table that it wrote."""

    n: int
    versions: dict[str, int]


class _Ids:
    """Collects what rows are about, file by file."""

    def __init__(self) -> None:
        self.rows = 0
        self._days: set[str] = set()
        self._kinds: set[str] = set()
        self._found: dict[str, list[Any]] = {name: [] for name in ("messages", "hashes", "writers", "absent")}

    def add(self, rows: Any, day: Mapping[str, Any]) -> None:
        self.rows += len(rows)
        self._days |= {str(one) for one in day.values()} or _days_of(rows)
        self._kinds |= set(rows["kind"].unique().to_pylist())
        is_named = pc.is_valid(rows["message_id"])
        is_about = pc.or_(is_named, pc.is_in(rows["kind"], value_set=_CHANGES_STATE))
        has_hash = pc.is_valid(rows["payload_hash"])
        at_node = pc.and_(has_hash, pc.is_in(rows["kind"], value_set=_AT_NODES))
        absent = pc.and_(has_hash, pc.equal(rows["kind"], JournalKind.MISSING_AT_NODE.value))
        for name, column in (
            ("messages", rows["message_id"].filter(is_about)),
            ("hashes", rows["payload_hash"].filter(at_node)),
            ("writers", rows["writer"]),
            ("absent", rows["payload_hash"].filter(absent)),
        ):
            self._found[name].append(column.unique())

    def change(self, files: EventChanges, *, gone: Any, hours: Any) -> Change:
        found = {name: _unique(columns) for name, columns in self._found.items()}
        days, kinds = frozenset(self._days), frozenset(self._kinds)
        return Change(files=files, rows=self.rows, days=days, kinds=kinds, gone=gone, hours=hours, **found)


def _rows_of(lake: Lake, name: str) -> Any:
    """The columns that tell what rows are about; of the quarantine only rows that were events until now."""
    with parquet.ParquetFile(open_file(lake.root, name)) as file:
        is_quarantine = "reason" in file.schema_arrow.names
        rows = file.read([*_COLUMNS, "reason"])
    if is_quarantine:
        rows = rows.filter(pc.fill_null(pc.equal(rows["reason"], CONFLICT), False))
    return rows.select(_COLUMNS)


def _days_of(rows: Any) -> set[str]:
    days = pc.divide(rows["at_ms"], DAY_MS).unique().to_pylist()
    return {str(EPOCH.fromordinal(EPOCH.toordinal() + day)) for day in days}


def _unique(columns: list[Any]) -> Any:
    return pa.chunked_array(columns, pa.binary()).unique()


def read_events(spark: SparkSession, lake: Lake, names: Iterable[str]) -> DataFrame:
    """The rows of these files of the table `events`; names are relative to the lake."""
    return read_files(spark, lake, lake.table("events"), sorted(names), schema_of("events"))


def keep_published(lake: Lake, n: int, versions: Mapping[str, int]) -> int:
    """From here on the derived tables are those of batch `n`. Return the batch of the publication before."""
    table = _open(lake)
    before = table.last()
    if before > n:
        raise ConcurrentWriter(table.name)
    file = table.write(pa.Table.from_pylist([{"n": n, "versions": json.dumps(versions)}], schema=PUBLISHED))
    table.replace([file], list(table.live()), batch=n)
    return before


def last_published(lake: Lake) -> Published | None:
    """Return what the last publication of the stream left; None before the first."""
    if not exists(lake.stream_table("published")):
        return None
    rows = _open(lake).read().to_pylist()
    return Published(rows[0]["n"], json.loads(rows[0]["versions"])) if rows else None


def _open(lake: Lake) -> DeltaFiles:
    return DeltaFiles(lake.stream_table("published"), PUBLISHED, retention_h=STREAM_RETENTION_H)
