"""The derived tables of a lake while they are published: each is opened once, written, and read by those that follow.

A backfill writes every table whole. Which rows a stream builds again is decided in jobs/table_updates and
jobs/message_updates; what they say is decided by the same transforms. Rows that follow from events of deleted days stay
as they are: they cannot be built again.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from restante.fleet.jobs.changes import keep_published, last_published
from restante.fleet.lake.arrow_files import write_table
from restante.fleet.lake.delta import ConcurrentWriter, DataFile, DeltaFiles, open_existing
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.reading import read_files
from restante.fleet.lake.table_writer import replace_rows
from restante.fleet.stream.retention import first_ms_of
from restante.fleet.tables.derived_tables import DERIVED
from restante.fleet.tables.table import Made, Table
from restante.model.errors import StoreUnusable

LARGE: Final = ("messages", "replicas")
"""Tables with a row a message; all others are written as one file, or one a day."""
_BY_NAME: Final = {table.name: table for table in DERIVED}

Keep = Callable[[DataFrame], DataFrame]


class PublishedTables(Mapping[str, DataFrame]):
    """The tables as they are now; one that is being updated, once it is."""

    def __init__(self, read: Callable[[str], DataFrame], under_way: Mapping[str, Future[None]]) -> None:
        self._read = read
        self._under_way = under_way
        self._opened: dict[str, DataFrame] = {}

    def __getitem__(self, name: str) -> DataFrame:
        if name in self._under_way:
            self._under_way[name].result()
        if name not in self._opened:
            self._opened[name] = self._read(name)
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_BY_NAME)

    def __len__(self) -> int:
        return len(_BY_NAME)

    def has_changed(self, name: str) -> None:
        self._opened.pop(name, None)


@dataclass
class Publication:
    """`live` are the files of the table `events`; `batch` is the stream's, 0 for a backfill."""

    spark: SparkSession
    lake: Lake
    made: Made
    live: Mapping[str, DataFile]
    keep: Keep
    batch: int
    tasks: int | None = None
    """Tasks that read a small table while tables are updated: with one, Spark joins and groups without a shuffle."""
    retained_from: str | None = None
    """The first day that retention left; None if it deleted none."""
    versions: dict[str, int] = field(default_factory=dict)
    """The version of each table that is written."""
    under_way: dict[str, Future[None]] = field(default_factory=dict)
    """Tables that are updated by other threads."""
    _files: dict[str, DeltaFiles] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tables = PublishedTables(self._open, self.under_way)

    def restore(self, versions: Mapping[str, int]) -> None:
        """Give the tables back the files they had after an earlier publication."""
        for table in DERIVED:
            self.files(table).restore(versions[table.name])

    @property
    def retained_from_ms(self) -> int | None:
        return None if self.retained_from is None else first_ms_of(self.retained_from)

    def describe(self, table: Table) -> None:
        """Name the table in Spark's UI, for jobs of this thread."""
        self.spark.sparkContext.setJobDescription(f"restante table {table.name}")

    def files(self, table: Table) -> DeltaFiles:
        if table.name not in self._files:
            self._files[table.name] = open_derived(self.lake, table)
        return self._files[table.name]

    @property
    def shuffle_tasks(self) -> int:
        """In how many tasks this session's queries shuffle."""
        return int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1)

    def read(self, table: Table, paths: Iterable[str]) -> DataFrame:
        return _read(self.spark, self.lake, table, paths)

    def in_few_tasks(self, rows: DataFrame) -> DataFrame:
        return rows if self.tasks is None else rows.coalesce(self.tasks)

    def stored(self, table: Table) -> Any:
        """All rows of a small table, as an Arrow table."""
        schema = to_arrow_schema(table.schema)
        return self.files(table).read(schema.names).select(schema.names).cast(schema)

    def build(self, table: Table, *, events: DataFrame | None = None, **tables: DataFrame) -> DataFrame:
        """Build rows of a table from these events, or all, and from published tables or those given here."""
        if table.build is None:
            raise AssertionError(f"{table.name} is written by batches")
        made = replace(self.made, tables=ChainMap(tables, self.tables))  # type: ignore[arg-type] # only read
        return table.build(made if events is None else replace(made, events=events))

    def write(self, table: Table, rows: DataFrame) -> None:
        """Make `rows` the content of the table."""
        files = self.files(table)
        replace_rows(rows if table.name in LARGE else rows.coalesce(1), files, batch=self.batch)
        self._note(table, files)

    def put(self, table: Table, parts: Sequence[Any], removed: Iterable[str]) -> None:
        """Write Arrow tables as one file, or one a day, in place of files that are removed."""
        schema = to_arrow_schema(table.schema)
        rows = pa.concat_tables([part.select(schema.names).cast(schema) for part in parts])
        self.commit(table, write_table(self.files(table).address, rows, partition=table.partition), removed)

    def put_all(self, table: Table, *parts: Any) -> None:
        """Make these Arrow tables the content of the table."""
        self.put(table, parts, removed=self.files(table).live())

    def commit(self, table: Table, added: Iterable[DataFile], removed: Iterable[str]) -> None:
        files = self.files(table)
        files.replace(added, removed, batch=self.batch)
        self._note(table, files)

    def broadcast(self, ids: Any) -> Any:
        """Send an Arrow array to every executor once."""
        sent: Any = self.spark.sparkContext.broadcast(ids)
        return sent

    def event_days(self, spans: Iterable[tuple[str, str]]) -> frozenset[str]:
        """The days of events that lie between the two days of any span."""
        days = {file.day for file in self.live.values() if file.day is not None}
        return frozenset(day for day in days if any(first <= day <= last for first, last in spans))

    def frame(self, rows: Any, schema: StructType | str) -> DataFrame:
        """An Arrow table as a DataFrame; its rows are in the plan.

        Spark 4.3 reads no further than an empty chunk, so the table becomes one chunk.
        """
        return self.spark.createDataFrame(rows.combine_chunks(), schema)

    def _open(self, name: str) -> DataFrame:
        table = _BY_NAME[name]
        rows = self.read(table, self.files(table).live())
        return rows if name in LARGE else self.in_few_tasks(rows)

    def _note(self, table: Table, files: DeltaFiles) -> None:
        self.versions[table.name] = files.version
        self.tables.has_changed(table.name)


def keep_tables(lake: Lake, *, batch: int) -> None:
    """Make the published tables those of `batch`, which changed no row of them. It needs no Spark session.

    A stream may publish at the same time: each begins with the versions that the last publication noted.
    """
    publish_beside_others(lake, batch, lambda: _keep_tables(lake, batch))


def publish_beside_others(lake: Lake, batch: int, publish: Callable[[], None]) -> None:
    """Publish `batch`. If another process committed to the tables meanwhile, begin again, unless it published as much.

    Retention and the stream are two, so one of them gets through; a third is refused.
    """
    try:
        publish()
    except ConcurrentWriter:
        found = last_published(lake)
        if found is None or found.n < batch:
            publish()


def _keep_tables(lake: Lake, batch: int) -> None:
    before = last_published(lake)
    if before is None:
        raise StoreUnusable(f"{lake.tables} has no derived tables; 'restante fleet stream --once' makes them")
    if before.n >= batch:
        return
    versions = {}
    for table in DERIVED:
        files = open_existing(lake.table(table.name))
        if files.last() > batch:
            return  # the stream publishes a later batch, which includes this one
        files.restore(before.versions[table.name])
        files.replace([], [], batch=batch)
        versions[table.name] = files.version
    keep_published(lake, batch, versions)


def open_derived(lake: Lake, table: Table) -> DeltaFiles:
    return DeltaFiles(lake.table(table.name), to_arrow_schema(table.schema), partition=table.partition)


def read_derived(spark: SparkSession, lake: Lake, table: Table, files: DeltaFiles) -> DataFrame:
    return _read(spark, lake, table, files.live())


def _read(spark: SparkSession, lake: Lake, table: Table, paths: Iterable[str]) -> DataFrame:
    names = (f"tables/{table.name}/{path}" for path in sorted(paths))
    return read_files(spark, lake, lake.table(table.name), names, table.schema)
