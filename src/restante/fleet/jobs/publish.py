"""Publish the derived tables of a lake (SPEC 13.3): build each from the events and commit it as a Delta table.

A backfill builds every row. A stream builds the rows that new events can change (jobs/publication) and keeps the
others: a day of messages stays closed until an event about one of them comes. Each commit carries the number of the
batch that the events are of; readers compare it with the stream's. Which rows can change follows from the tables as the
last publication left them: what one that was killed had committed is undone first.
"""

from pyspark.sql import DataFrame, SparkSession

from restante.fleet.jobs.changes import find_change, keep_published, published_versions, read_events
from restante.fleet.jobs.publication import Publication, open_derived, read_derived
from restante.fleet.lake.delta import PUBLISHED_RETENTION_H
from restante.fleet.lake.delta import exists as table_exists
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.table_writer import open_base_table
from restante.fleet.spark.cached_tables import cached_tables
from restante.fleet.stream.batches import MERGE_INTERVAL
from restante.fleet.tables.definitions import FleetTables, trusted_actions
from restante.fleet.tables.derived_tables import DERIVED
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE
from restante.fleet.tables.table import Made
from restante.model.provenance import Provenance
from restante.policy.dead_letters import DeadLetterRetention


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
    _undo_unfinished(lake)
    live = open_base_table(lake, "events").live()
    events = read_events(spark, lake, sorted(live)).select(*JOURNAL_COLUMNS, SOURCE_FILE)
    made = Made(events=events.drop(SOURCE_FILE), now_ms=now_ms, retention=retention, partitions=partitions)
    with cached_tables() as keep:
        change = find_change(spark, lake, live, keep) if batch and _are_published(lake) else None
        work = Publication(spark, lake, made, live, keep, change, batch)
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
        if batch and keep_published(lake, batch, live, work.versions) // MERGE_INTERVAL != batch // MERGE_INTERVAL:
            for table in DERIVED:
                open_derived(lake, table).vacuum(retention_h=PUBLISHED_RETENTION_H)


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


def _undo_unfinished(lake: Lake) -> None:
    """Give the tables back the files they had after the last publication of a stream."""
    versions = published_versions(lake) if table_exists(lake.stream_table("published")) else {}
    for table in DERIVED:
        if table.name in versions:
            open_derived(lake, table).restore(versions[table.name])


def _are_published(lake: Lake) -> bool:
    return all(table_exists(lake.table(table.name)) for table in DERIVED)
