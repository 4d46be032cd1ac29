"""Whose journal is whose: a node says with each start which node it is (decision 0020). Nothing else is known here."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.model.journal import JournalKind


def node_journals(events: DataFrame) -> DataFrame:
    """One row a writer that is a node: which, and until when its facts have come."""
    started = (sf.col("kind") == JournalKind.NODE_STARTED) & sf.col("node").isNotNull()
    return (
        events.groupBy("writer")
        .agg(
            sf.max_by("node", sf.when(started, sf.col("event_id"))).alias("node"),
            sf.max("at_ms").alias("last_fact_at_ms"),
        )
        .filter(sf.col("node").isNotNull())
        .select("writer", "node", "last_fact_at_ms")
    )
