"""Facts and their tables as Spark has them, for tests."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from restante.fleet.tables.definitions import FleetTables, fleet_tables
from restante.fleet.tables.journal_schema import JOURNAL
from restante.model.journal import JournalEvent
from restante.policy.dead_letters import DeadLetterRetention
from support.fleet.journal_files import Journal, records


def facts_frame(spark: SparkSession, rows: Iterable[JournalEvent]) -> DataFrame:
    return spark.createDataFrame([tuple(record.values()) for record in records(rows)], JOURNAL)


@contextmanager
def tables_of(spark: SparkSession, *journals: Journal, now_ms: int) -> Iterator[FleetTables]:
    """Kept in memory while a test looks at them."""
    kept: list[DataFrame] = []

    def keep(table: DataFrame) -> DataFrame:
        kept.append(table.persist())
        return kept[-1]

    facts = keep(facts_frame(spark, [row for journal in journals for row in journal.rows]))
    yield fleet_tables(facts, now_ms=now_ms, retention=DeadLetterRetention(), keep=keep)
    for table in kept:
        table.unpersist()
