"""Publish the derived tables of a lake (SPEC 13.3): build each from the events and commit it as a Delta table.

A backfill builds every row. A stream builds the rows that new events can change (jobs/table_updates) and keeps the
others: a day of messages stays closed until an event about one of them comes. Each commit carries the number of the
batch that the events are of; readers compare it with the stream's. Once retention has deleted events, rows are only
updated: those that follow from deleted events stay. Which rows can change follows from the tables as the
last publication left them: what one that was killed had committed is undone first.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from restante.fleet.jobs.changes import Change, find_change, keep_published, last_published, read_events
from restante.fleet.jobs.publication import LARGE, Publication, open_derived, read_derived
from restante.fleet.jobs.table_updates import TableUpdates
from restante.fleet.lake.delta import PUBLISHED_RETENTION_H
from restante.fleet.lake.delta import exists as table_exists
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.table_writer import open_base_table
from restante.fleet.spark.cached_tables import cached_tables
from restante.fleet.spark.map_in_arrow import partitions_for
from restante.fleet.stream.batches import MERGE_INTERVAL, last_catalog, open_batches
from restante.fleet.stream.state_tables import KINDS
from restante.fleet.tables.definitions import TABLES, FleetTables, trusted_actions
from restante.fleet.tables.derived_tables import DERIVED
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE
from restante.fleet.tables.table import Made, Scope
from restante.model.errors import StoreUnusable
from restante.model.provenance import Certainty, Provenance
from restante.policy.dead_letters import DeadLetterRetention

FEW_TASKS: Final = 4
"""Tasks of a stage that updates tables, however many cores there are, unless a million rows changed for each."""
TABLES_AT_ONCE: Final = 3
"""Small tables are one task each, and commits: together they keep two cores busy."""


def publish(
    spark: SparkSession,
    lake: Lake,
    *,
    now_ms: int,
    retention: DeadLetterRetention,
    provenance: Provenance,
    batch: int = 0,
) -> None:
    """Publish all derived tables of the events that the lake has now; `batch` is the stream's, 0 for a backfill."""
    before = last_published(lake)
    change = None if before is None else find_change(lake, since=before.n)
    retained_from = _retained_from(lake) if batch else None
    if retained_from is not None:
        change = _of_kept_days(change, retained_from)
    tasks = None if change is None else partitions_for(change.rows, at_least=1)
    if change is not None:
        spark = _session_for_few_rows(spark, change)
    live = open_base_table(lake, "events").live()
    names = [f"{KINDS['events'].folder}/{path}" for path in live]
    rows = sum(file.rows for file in live.values())
    partitions = partitions_for(rows, at_least=spark.sparkContext.defaultParallelism)
    if change is not None and provenance.certainty is not Certainty.PARTLY_VERIFIED:
        names = list(change.files.came)
    events = read_events(spark, lake, names).select(*JOURNAL_COLUMNS, SOURCE_FILE)
    made = Made(events=events.drop(SOURCE_FILE), now_ms=now_ms, retention=retention, partitions=partitions)
    with cached_tables() as keep:
        work = Publication(spark, lake, made, live, keep, batch, tasks, retained_from)
        if before is not None:
            work.restore(before.versions)
        if change is None:
            _build_all(work)
        else:
            _update_all(work, change)
        known = FleetTables(by_name=work.tables)
        actions = trusted_actions(known, events, provenance, now_ms=now_ms, retention=retention, partitions=partitions)
        if change is None:
            work.write(TABLES["actions"], actions)
        else:
            work.put_all(TABLES["actions"], actions.toArrow())
    if batch and keep_published(lake, batch, work.versions) // MERGE_INTERVAL != batch // MERGE_INTERVAL:
        for table in DERIVED:
            work.files(table).vacuum(retention_h=PUBLISHED_RETENTION_H)


def _retained_from(lake: Lake) -> str | None:
    catalog = last_catalog(open_batches(lake))
    return None if catalog is None else catalog.retained_from


def _of_kept_days(change: Change | None, retained_from: str) -> Change:
    """A contradicted row may claim a deleted day: what is published of that day stays."""
    if change is None:
        raise StoreUnusable(
            f"events before {retained_from} were deleted, and what changed since the last publication is not known any "
            "more; 'restante fleet stream --reset' makes all tables again from the segments that are left"
        )
    return replace(change, days=frozenset(day for day in change.days if day >= retained_from))


def _build_all(work: Publication) -> None:
    for table in DERIVED:
        if table.name != "actions":
            work.describe(table)
            work.write(table, work.build(table))


def _update_all(work: Publication, change: Change) -> None:
    """Update the tables with a row a message, and small ones beside them, several at a time.

    A table that is built from others waits for them (PublishedTables): these come before it in DERIVED.
    """
    updates = TableUpdates(work, change)
    small = (table.name for table in DERIVED if table.name not in (*LARGE, "actions"))
    are_all_known = Event()  # each may wait for any other

    def update(name: str) -> None:
        are_all_known.wait()
        updates.update(TABLES[name])

    with ThreadPoolExecutor(len(LARGE)) as large, ThreadPoolExecutor(TABLES_AT_ONCE) as several:
        try:
            for threads, names in ((large, LARGE), (several, sorted(small, key=_turn))):
                for name in names:
                    work.under_way[name] = threads.submit(update, name)
        finally:
            are_all_known.set()
    for done in work.under_way.values():
        done.result()


def _turn(name: str) -> int:
    """When a table is begun: the later, the more it waits for."""
    scope = TABLES[name].scope
    return 0 if scope in (Scope.EVENT, Scope.HOUR, Scope.WRITER) else 2 if scope is Scope.COPY else 1


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


def _session_for_few_rows(spark: SparkSession, change: Change) -> SparkSession:
    """A session of the same Spark whose plans are not looked at again after each shuffle."""
    few = spark.newSession()
    tasks = partitions_for(change.rows, at_least=min(spark.sparkContext.defaultParallelism, FEW_TASKS))
    few.conf.set("spark.sql.adaptive.enabled", "false")
    few.conf.set("spark.sql.codegen.wholeStage", "false")
    few.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    few.conf.set("spark.sql.shuffle.partitions", str(tasks))
    few.conf.set("spark.sql.files.minPartitionNum", str(tasks))
    return few
