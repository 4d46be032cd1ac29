"""Publish the derived tables of a lake (SPEC 13.3): build each from the events and commit it as a Delta table.

A backfill builds every row. A stream builds the rows that new events can change (tables/table.Scope) and keeps the
others: a day of messages stays closed until an event about one of them comes. A table that others are built from is
read back from its files, so that nothing is computed twice. Each commit carries the number of the batch that the events
are of; readers compare it with the stream's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from restante.fleet.jobs.changes import Change, days_between, find_change, keep_published, read_events
from restante.fleet.lake.delta import PUBLISHED_RETENTION_H, DataFile, DeltaFiles
from restante.fleet.lake.delta import exists as table_exists
from restante.fleet.lake.layout import DAY, Lake
from restante.fleet.lake.reading import read_files
from restante.fleet.lake.table_writer import open_base_table, replace_rows
from restante.fleet.spark.cached_tables import cached_tables
from restante.fleet.stream.batches import MERGE_INTERVAL
from restante.fleet.tables.definitions import FleetTables, trusted_actions
from restante.fleet.tables.derived_tables import DERIVED
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE
from restante.fleet.tables.table import Made, Scope, Table
from restante.fleet.transforms.messages import utc_day
from restante.fleet.transforms.node_identities import node_writers
from restante.model.provenance import Provenance
from restante.policy.dead_letters import DeadLetterRetention

LARGE: Final = frozenset({"messages", "replicas"})
"""Tables with a row a message; all others are written as one file."""

Keep = Callable[[DataFrame], DataFrame]


def publish(
    spark: SparkSession,
    lake: Lake,
    *,
    now_ms: int,
    retention: DeadLetterRetention,
    provenance: Provenance,
    batch: int = 0,
    partitions: int | None = None,
) -> None:
    """Publish all derived tables of the events that the lake has now; `batch` is the stream's, 0 for a backfill."""
    live = open_base_table(lake, "events").live()
    events = read_events(spark, lake, sorted(live)).select(*JOURNAL_COLUMNS, SOURCE_FILE)
    made = Made(events=events.drop(SOURCE_FILE), now_ms=now_ms, retention=retention, partitions=partitions)
    with cached_tables() as keep:
        change = find_change(spark, lake, live, keep) if batch and _are_published(lake) else None
        work = _Publication(spark, lake, made, live, keep, change, batch)
        for table in DERIVED:
            spark.sparkContext.setJobDescription(f"restante table {table.name}")
            if table.name == "actions":
                known = FleetTables(by_name=work.tables)
                rows = trusted_actions(
                    known, events, provenance, now_ms=now_ms, retention=retention, partitions=partitions
                )
                work.write(table, rows)
            else:
                work.update(table)
        if batch and keep_published(lake, batch, live) // MERGE_INTERVAL != batch // MERGE_INTERVAL:
            for table in DERIVED:
                open_derived(lake, table).vacuum(retention_h=PUBLISHED_RETENTION_H)


@dataclass
class _Publication:
    """The tables that are published so far, and what of them changed."""

    spark: SparkSession
    lake: Lake
    made: Made
    live: Mapping[str, DataFile]
    keep: Keep
    change: Change | None
    batch: int
    tables: dict[str, DataFrame] = field(default_factory=dict)
    message_days: frozenset[str] = frozenset()
    hashes: DataFrame | None = None
    concerned: DataFrame | None = None
    """The events of the messages that changed."""

    def update(self, table: Table) -> None:
        """Build the rows that can have changed and write the table."""
        change = self.change
        if change is None or table.scope is Scope.WHOLE:
            self.write(table, _built(table, replace(self.made, tables=self.tables)))
            return
        match table.scope:
            case Scope.EVENT_DAY:
                self._replace_days(table, self._events_of(change.days), change.days)
            case Scope.MESSAGE_DAY:
                self._replace_days(table, self.made.events, self.message_days)
            case Scope.MESSAGE if table.name == "messages":
                self._update_messages(table, change)
            case Scope.MESSAGE:
                self._update_by_message(table, change)
            case Scope.PAYLOAD:
                self._update_replicas(table, change)

    def write(self, table: Table, rows: DataFrame, keep: Callable[[DataFile], bool] = lambda _file: False) -> None:
        files = open_derived(self.lake, table)
        replace_rows(rows if table.name in LARGE else rows.coalesce(1), files, keep=keep, batch=self.batch)
        self.tables[table.name] = read_derived(self.spark, self.lake, table, files)

    def _replace_days(self, table: Table, events: DataFrame, days: frozenset[str]) -> None:
        """Build the rows of some days; `events` and messages are those of these days."""
        tables = dict(self.tables)
        if "messages" in tables:
            tables["messages"] = tables["messages"].filter(_is_in(sf.col(DAY), days))
        built = _built(table, replace(self.made, events=events, tables=tables))
        old = self._old(table).filter(~_is_in(_day_of(table), days))
        self.write(table, built.unionByName(old))

    def _update_messages(self, table: Table, change: Change) -> None:
        """Build the messages that changed, from events of the days in which they have any."""
        old = self._old(table)
        changed = self.keep(old.join(change.messages, _same_message(old, change.messages), "left_semi"))
        spans = days_between(changed, "first_event_at_ms", "last_event_at_ms", self._days())
        events = self._events_of(change.days | spans)
        concerned = events.join(change.messages, _same_message(events, change.messages), "left_semi")
        self.concerned = concerned
        new = self.keep(_built(table, replace(self.made, events=concerned)))
        both = new.select(DAY).union(changed.select(DAY)).distinct().collect()
        days = self.message_days = frozenset(str(row[DAY]) for row in both)
        same_days = old.filter(_is_in(sf.col(DAY), days))
        kept = same_days.join(change.messages, _same_message(same_days, change.messages), "left_anti")
        hashes = (
            new.select("payload_hash", "other_hashes").unionByName(changed.select("payload_hash", "other_hashes"))
        ).select(sf.explode(sf.concat(sf.array("payload_hash"), "other_hashes")).alias("payload_hash"))
        self.hashes = self.keep(change.hashes.union(hashes).filter("payload_hash is not null").distinct())
        self.write(table, kept.unionByName(new), keep=lambda file: file.day not in days)

    def _update_by_message(self, table: Table, change: Change) -> None:
        old = self._old(table)
        kept = old.join(change.messages, _same_message(old, change.messages), "left_anti")
        events = self.made.events if self.concerned is None else self.concerned
        built = _built(table, replace(self.made, events=events, tables=self.tables))
        self.write(table, built.unionByName(kept))

    def _update_replicas(self, table: Table, change: Change) -> None:
        old, hashes = self._old(table), self.hashes
        if hashes is None or self._has_other_nodes(old):
            self.write(table, _built(table, replace(self.made, tables=self.tables)))
            return
        changed = self.keep(old.join(hashes, on="payload_hash", how="left_semi").select(*old.columns))
        spans = days_between(changed.withColumn("first_ms", _first_ms()), "first_ms", "last_event_at_ms", self._days())
        events = self._events_of(change.days | spans)
        events = events.join(hashes, on="payload_hash", how="left_semi").select(*JOURNAL_COLUMNS)
        messages = self.tables["messages"]
        owners = messages.join(hashes, on="payload_hash", how="left_semi").select(*messages.columns)
        owners = owners.unionByName(messages.filter(sf.size("other_hashes") > 0)).dropDuplicates(["message_id"])
        tables = {**self.tables, "messages": owners}
        new = self.keep(_built(table, replace(self.made, events=events, tables=tables)))
        both = new.select(DAY).union(changed.select(DAY)).distinct().collect()
        days = frozenset(str(row[DAY]) for row in both)
        kept = old.filter(_is_in(sf.col(DAY), days)).join(hashes, on="payload_hash", how="left_anti")
        self.write(table, kept.select(*old.columns).unionByName(new), keep=lambda file: file.day not in days)

    def _has_other_nodes(self, old: DataFrame) -> bool:
        """Whether a writer of published replicas turned out to be another node than they say."""
        now = sf.broadcast(node_writers(self.tables["writer_hours"]).withColumnRenamed("node", "is_node"))
        return not old.join(now, on="writer", how="left").filter("not (node <=> is_node)").isEmpty()

    def _events_of(self, days: frozenset[str]) -> DataFrame:
        paths = sorted(path for path, file in self.live.items() if file.day in days)
        return read_events(self.spark, self.lake, paths).select(*JOURNAL_COLUMNS)

    def _days(self) -> frozenset[str]:
        return frozenset(file.day for file in self.live.values() if file.day is not None)

    def _old(self, table: Table) -> DataFrame:
        return read_derived(self.spark, self.lake, table, open_derived(self.lake, table))


def published(spark: SparkSession, lake: Lake, *, batch: int) -> FleetTables | None:
    """The derived tables, if all of them are of `batch`."""
    tables: dict[str, DataFrame] = {}
    for table in DERIVED:
        if not table_exists(lake.table(table.name)):
            return None
        files = open_derived(lake, table)
        if files.last() != batch:
            return None
        tables[table.name] = read_derived(spark, lake, table, files)
    return FleetTables(by_name=tables)


def open_derived(lake: Lake, table: Table) -> DeltaFiles:
    return DeltaFiles(lake.table(table.name), to_arrow_schema(table.schema), partition=table.partition)


def read_derived(spark: SparkSession, lake: Lake, table: Table, files: DeltaFiles) -> DataFrame:
    names = (f"tables/{table.name}/{path}" for path in sorted(files.live()))
    return read_files(spark, lake, lake.table(table.name), names, table.schema)


def _built(table: Table, made: Made) -> DataFrame:
    if table.build is None:
        raise AssertionError(f"{table.name} is written by batches")
    return table.build(made)


def _are_published(lake: Lake) -> bool:
    return all(table_exists(lake.table(table.name)) for table in DERIVED)


def _same_message(one: DataFrame, other: DataFrame) -> Column:
    """Events that name no message are one message, too."""
    return one["message_id"].eqNullSafe(other["message_id"])


def _is_in(day: Column, days: frozenset[str]) -> Column:
    return day.isin([sf.lit(one).cast("date") for one in sorted(days)]) if days else sf.lit(False)


def _day_of(table: Table) -> Column:
    """The UTC day of a row."""
    names = {column.name for column in table.columns}
    return sf.col(DAY) if DAY in names else utc_day(sf.col("hour_ms" if "hour_ms" in names else "at_ms"))


def _first_ms() -> Column:
    return sf.unix_date(sf.col(DAY)).cast("bigint") * sf.lit(86_400_000)
