"""Actions follow from segments that enrolled keys signed, and from nothing else (SPEC 13.1)."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from restante.fleet.tables.definitions import trusted_actions, verified_tables
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.provenance import Provenance
from restante.policy.dead_letters import DeadLetterRetention
from support.fleet.dataframes import facts_frame
from support.fleet.journal_files import Journal, message, writer
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
DAY_MS = 86_400_000
NOW_MS = NOON_MS + 2 * DAY_MS
RETENTION = DeadLetterRetention()
SIGNED, UNSIGNED = "signed.parquet", "unsigned.parquet"
NOTHING_SIGNED = Provenance(unverified=2)
MIXED = Provenance(verified=1, unverified=1, verified_files=frozenset({SIGNED}))


def dead(journal: Journal, number: int) -> None:
    details = {"message_kind": Kind.TEXT, "priority": Priority.NORMAL, "ttl_s": 30 * 86_400}
    journal.write(JournalKind.ACCEPTED, message(number), NOON_MS, **details)
    journal.write(JournalKind.DEAD_LETTERED, message(number), NOON_MS + 1_000, code="E001", attempt=15)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Two senders, each with a dead letter whose daily retry is due; nothing signs the events of the second."""
    honest, invented = Journal(writer(1)), Journal(writer(2))
    dead(honest, 1)
    dead(invented, 2)
    return (
        facts_frame(spark, honest.rows)
        .withColumn("source_file", sf.lit(SIGNED))
        .unionByName(facts_frame(spark, invented.rows).withColumn("source_file", sf.lit(UNSIGNED)))
    )


@clause("13.1", "13.6")
def test_what_no_enrolled_key_signed_is_shown_and_leads_to_no_action(rows: DataFrame) -> None:
    tables = verified_tables(rows, MIXED, now_ms=NOW_MS, retention=RETENTION)
    letters = tables["dead_letters"].filter(sf.col("next_retry_at_ms") <= NOW_MS).collect()
    assert [row["message_id"] for row in letters] == [message(1)]
    assert trusted_actions(tables, rows, NOTHING_SIGNED, now_ms=NOW_MS, retention=RETENTION).isEmpty()
