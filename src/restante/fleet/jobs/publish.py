"""Publish the derived tables of a lake (SPEC 13.3): build each from the events and commit it as a Delta table.

A table that others are built from is read back from its files, so that nothing is computed twice. Each commit carries
the number of the batch that the events are of; readers compare it with the stream's.
"""

from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from restante.fleet.lake.delta import DeltaFiles
from restante.fleet.lake.delta import exists as table_exists
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.reading import read_files, read_live
from restante.fleet.lake.table_writer import replace_rows
from restante.fleet.spark.cached_tables import cached_tables
from restante.fleet.tables.definitions import FleetTables, trusted_actions
from restante.fleet.tables.derived_tables import DERIVED
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS
from restante.fleet.tables.table import Made, Table
from restante.fleet.transforms.messages import message_lifecycles
from restante.fleet.transforms.writer_activity import writer_hours
from restante.model.provenance import Provenance
from restante.policy.dead_letters import DeadLetterRetention

LARGE: Final = frozenset({"messages", "replicas"})
"""Tables with a row a message; all others are written as one file."""


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
    rows = read_live(spark, lake, "events")
    events = rows.select(*JOURNAL_COLUMNS)
    with cached_tables() as keep:
        keep(writer_hours(events))
        lifecycles = keep(message_lifecycles(events, partitions=partitions))
        made = Made(events=events, lifecycles=lifecycles, now_ms=now_ms, retention=retention)
        tables: dict[str, DataFrame] = {}
        for table in DERIVED:
            if table.build is None:
                continue
            if table.name == "actions":
                known = FleetTables(by_name=tables)
                built = trusted_actions(
                    known, rows, provenance, now_ms=now_ms, retention=retention, partitions=partitions
                )
            else:
                built = table.build(replace(made, tables=tables))
            files = open_derived(lake, table)
            spark.sparkContext.setJobDescription(f"restante table {table.name}")
            replace_rows(built if table.name in LARGE else built.coalesce(1), files, batch=batch)
            tables[table.name] = read_derived(spark, lake, table, files)


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
