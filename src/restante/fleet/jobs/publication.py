"""Update the derived tables by what is new: build the rows that changed events can change, and keep all others.

Which rows these are follows from a table's scope (tables/table.Scope); what they say is decided by the same transforms
as in a backfill. A table that others are built from is read back from its files, so that nothing is computed twice.
Messages and replicas are searched by one column first; whole rows are read of the days that have what is searched for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from restante.fleet.jobs.changes import Change, days_between, read_events
from restante.fleet.lake.delta import DataFile, DeltaFiles
from restante.fleet.lake.layout import DAY, Lake
from restante.fleet.lake.reading import read_files
from restante.fleet.lake.table_writer import replace_rows
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS
from restante.fleet.tables.table import Made, Scope, Table
from restante.fleet.transforms.conservation import days_to_search
from restante.fleet.transforms.messages import DAY_MS, utc_day
from restante.fleet.transforms.node_identities import node_writers
from restante.fleet.transforms.withholding import claimed

LARGE: Final = frozenset({"messages", "replicas"})
"""Tables with a row a message; all others are written as one file, or one a day."""
BROADCAST_ROWS: Final = 2_000_000
"""Up to so many ids are sent to every executor, so that the table they are searched in is not shuffled."""

Keep = Callable[[DataFrame], DataFrame]


@dataclass
class Publication:
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
    """Days of messages that changed."""
    new_messages: DataFrame | None = None
    """The messages that changed, as they are now."""
    concerned: DataFrame | None = None
    """The events of these messages."""
    hashes: DataFrame | None = None
    """Sealed bytes whose replicas changed."""
    new_replicas: DataFrame | None = None
    """These replicas as they are now; None if all were built."""
    versions: dict[str, int] = field(default_factory=dict)
    """The version of each table that is written."""
    has_other_nodes: bool = False
    """Whether a known writer turned out to be another node than before."""

    def update(self, table: Table) -> None:
        """Build the rows that can have changed and write the table."""
        change = self.change
        if change is None or table.scope is Scope.WHOLE:
            self._write_all(table)
            return
        match table.scope:
            case Scope.EVENT_DAY:
                old = self._old(table)
                self._replace_days(table, change.days, self._events_of(change.days))
                if table.name == "writer_hours":
                    self.has_other_nodes = _has_other_nodes(old, self.tables[table.name])
            case Scope.MESSAGE_DAY:
                self._replace_days(table, self.message_days, self.made.events)
            case Scope.MESSAGE if table.name == "messages":
                self._update_messages(table, change)
            case Scope.MESSAGE:
                self._update_by_message(table, change)
            case Scope.WRITER:
                self._update_by_writer(table, change)
            case Scope.PAYLOAD:
                self._update_replicas(table, change)
            case Scope.COPY:
                self._update_copies(table)
            case Scope.ABSENCE:
                self._update_withholding(table, change)

    def write(self, table: Table, rows: DataFrame, keep: Callable[[DataFile], bool] = lambda _file: False) -> None:
        files = open_derived(self.lake, table)
        replace_rows(rows if table.name in LARGE else rows.coalesce(1), files, keep=keep, batch=self.batch)
        self.versions[table.name] = files.version
        self.tables[table.name] = read_derived(self.spark, self.lake, table, files)

    def _write_all(self, table: Table) -> None:
        self.write(table, _built(table, replace(self.made, tables=self.tables)))

    def _replace_days(self, table: Table, days: frozenset[str], events: DataFrame) -> None:
        """Build the rows of some days; `events` are theirs."""
        tables = dict(self.tables)
        if "messages" in tables:
            tables["messages"] = tables["messages"].filter(_is_in(sf.col(DAY), days))
        built = _built(table, replace(self.made, events=events, tables=tables))
        if table.partition:
            self.write(table, built, keep=lambda file: file.day not in days)
        else:
            self.write(table, built.unionByName(self._old(table).filter(~_is_in(_day_of(table), days))))

    def _update_messages(self, table: Table, change: Change) -> None:
        """Build the messages that changed, from events of the days in which they have any."""
        ids = self._searched(change.messages)
        everything = self._old(table)
        days_before = _days(everything.select("message_id", DAY).join(ids, _same_message(everything, ids), "left_semi"))
        old = everything.filter(_is_in(sf.col(DAY), days_before))
        changed = self.keep(old.join(ids, _same_message(old, ids), "left_semi"))
        spans = days_between(changed, "first_event_at_ms", "last_event_at_ms", self._event_days())
        events = self._events_of(change.days | spans)
        self.concerned = self.keep(events.join(ids, _same_message(events, ids), "left_semi"))
        new = self.new_messages = self.keep(_built(table, replace(self.made, events=self.concerned)))
        days = self.message_days = days_before | _days(new)
        same_days = everything.filter(_is_in(sf.col(DAY), days))
        kept = same_days.join(ids, _same_message(same_days, ids), "left_anti")
        hashes = (
            new.select("payload_hash", "other_hashes").unionByName(changed.select("payload_hash", "other_hashes"))
        ).select(sf.explode(sf.concat(sf.array("payload_hash"), "other_hashes")).alias("payload_hash"))
        self.hashes = self.keep(change.hashes.union(hashes).filter("payload_hash is not null").distinct())
        self.write(table, kept.unionByName(new), keep=lambda file: file.day not in days)

    def _update_by_message(self, table: Table, change: Change) -> None:
        """Build the rows of the messages that changed; the table has few rows."""
        events, new = self._of_messages()
        old, ids = self._old(table), self._searched(change.messages)
        kept = old.join(ids, _same_message(old, ids), "left_anti")
        built = _built(table, replace(self.made, events=events, tables={**self.tables, "messages": new}))
        self.write(table, built.unionByName(kept))

    def _update_by_writer(self, table: Table, change: Change) -> None:
        """Build the rows of the writers that changed, from events of the days that the hours tell to search."""
        hours = self.tables["writer_hours"].join(sf.broadcast(change.writers), on="writer", how="left_semi")
        events = self._events_of(_days(days_to_search(hours)))
        built = _built(table, replace(self.made, events=events, tables={**self.tables, "writer_hours": hours}))
        kept = self._old(table).join(sf.broadcast(change.writers), on="writer", how="left_anti")
        self.write(table, built.unionByName(kept))

    def _update_replicas(self, table: Table, change: Change) -> None:
        if self.hashes is None or self.has_other_nodes:
            self._write_all(table)
            return
        hashes, everything = self._searched(self.hashes), self._old(table)
        days_before = _days(everything.select("payload_hash", DAY).join(hashes, "payload_hash", "left_semi"))
        old = everything.filter(_is_in(sf.col(DAY), days_before))
        changed = self.keep(old.join(hashes, on="payload_hash", how="left_semi").select(*old.columns))
        spans = days_between(
            changed.withColumn("first_ms", _first_ms()), "first_ms", "last_event_at_ms", self._event_days()
        )
        events = self._events_of(change.days | spans)
        events = events.join(hashes, on="payload_hash", how="left_semi").select(*JOURNAL_COLUMNS)
        owners = self.tables["messages"].select("message_id", "payload_hash", "other_hashes")
        owned = owners.join(hashes, on="payload_hash", how="left_semi").select(*owners.columns)
        owned = owned.unionByName(owners.filter(sf.size("other_hashes") > 0)).dropDuplicates(["message_id"])
        made = replace(self.made, events=events, tables={**self.tables, "messages": owned})
        new = self.new_replicas = self.keep(_built(table, made))
        days = days_before | _days(new)
        same_days = everything.filter(_is_in(sf.col(DAY), days))
        kept = same_days.join(hashes, on="payload_hash", how="left_anti").select(*old.columns)
        self.write(table, kept.unionByName(new), keep=lambda file: file.day not in days)

    def _update_copies(self, table: Table) -> None:
        """Keep what is not about changed sealed bytes, add what is, and leave out messages that ended."""
        if self.hashes is None or self.new_replicas is None:
            self._write_all(table)
            return
        old = self._old(table)
        kept = old.join(self._searched(self.hashes), on="payload_hash", how="left_anti").select(*old.columns)
        copies = kept.unionByName(self.new_replicas.select(*old.columns))
        self.write(table, _built(table, replace(self.made, tables={**self.tables, "replicas": copies})))

    def _update_withholding(self, table: Table, change: Change) -> None:
        """Judge again the messages that changed, and those that changed absences are about."""
        old, known, (_, new) = self._old(table), self.tables["absences"], self._of_messages()
        about = claimed(new, known).select("message_id", DAY)
        if not change.absences.isEmpty():
            about = about.union(claimed(self.tables["messages"], change.absences).select("message_id", DAY))
        about = self.keep(about.distinct())
        messages = self.tables["messages"].filter(_is_in(sf.col(DAY), _days(about)))
        messages = messages.join(about.select("message_id"), on="message_id", how="left_semi")
        signed = messages.select(sf.inline("confirmed")).select(utc_day(sf.col("at_ms")).alias(DAY))
        made = replace(self.made, events=self._events_of(_days(signed)), tables={**self.tables, "messages": messages})
        again = about.select("message_id").union(change.messages.filter("message_id is not null")).distinct()
        kept = old.join(again, on="message_id", how="left_anti").select(*old.columns)
        self.write(table, _built(table, made).unionByName(kept))

    def _of_messages(self) -> tuple[DataFrame, DataFrame]:
        """The events of the messages that changed, and these messages."""
        if self.concerned is None or self.new_messages is None:
            raise AssertionError("messages are updated before what is made from them")
        return self.concerned, self.new_messages

    def _searched(self, ids: DataFrame) -> DataFrame:
        return sf.broadcast(ids) if ids.count() <= BROADCAST_ROWS else ids

    def _events_of(self, days: frozenset[str]) -> DataFrame:
        paths = sorted(path for path, file in self.live.items() if file.day in days)
        return read_events(self.spark, self.lake, paths).select(*JOURNAL_COLUMNS)

    def _event_days(self) -> frozenset[str]:
        return frozenset(file.day for file in self.live.values() if file.day is not None)

    def _old(self, table: Table) -> DataFrame:
        return read_derived(self.spark, self.lake, table, open_derived(self.lake, table))


def open_derived(lake: Lake, table: Table) -> DeltaFiles:
    return DeltaFiles(lake.table(table.name), to_arrow_schema(table.schema), partition=table.partition)


def read_derived(spark: SparkSession, lake: Lake, table: Table, files: DeltaFiles) -> DataFrame:
    names = (f"tables/{table.name}/{path}" for path in sorted(files.live()))
    return read_files(spark, lake, lake.table(table.name), names, table.schema)


def _built(table: Table, made: Made) -> DataFrame:
    if table.build is None:
        raise AssertionError(f"{table.name} is written by batches")
    return table.build(made)


def _same_message(one: DataFrame, other: DataFrame) -> Column:
    """Events that name no message are one message, too."""
    return one["message_id"].eqNullSafe(other["message_id"])


def _has_other_nodes(before: DataFrame, now: DataFrame) -> bool:
    """Whether a writer that had events already turned out to be another node than it was."""
    were = before.select("writer").distinct().join(node_writers(before), on="writer", how="left")
    are = node_writers(now).withColumnRenamed("node", "is_node")
    return not were.join(are, on="writer", how="left").filter("not (node <=> is_node)").isEmpty()


def _is_in(day: Column, days: frozenset[str]) -> Column:
    return day.isin([sf.lit(one).cast("date") for one in sorted(days)]) if days else sf.lit(False)


def _days(rows: DataFrame) -> frozenset[str]:
    return frozenset(str(row[DAY]) for row in rows.select(DAY).distinct().collect())


def _day_of(table: Table) -> Column:
    """The UTC day of a row."""
    names = {column.name for column in table.columns}
    return sf.col(DAY) if DAY in names else utc_day(sf.col("hour_ms" if "hour_ms" in names else "at_ms"))


def _first_ms() -> Column:
    return sf.unix_date(sf.col(DAY)).cast("bigint") * sf.lit(DAY_MS)
