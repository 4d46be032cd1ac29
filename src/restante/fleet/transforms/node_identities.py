"""Whose journal is whose: a node says with each start which node it is (decision 0020). Nothing else is known here."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.fleet.transforms.writer_activity import writer_hours
from restante.model.journal import JournalKind


def node_writers(events: DataFrame) -> DataFrame:
    """One row a writer that is a node: which, by the last of its starts."""
    return (
        events.filter((sf.col("kind") == JournalKind.NODE_STARTED) & sf.col("node").isNotNull())
        .groupBy("writer")
        .agg(sf.max_by("node", "event_id").alias("node"))
        .select("writer", "node")
    )


def node_journals(events: DataFrame) -> DataFrame:
    """The same, and until when its facts have come."""
    last_facts = writer_hours(events).groupBy("writer").agg(sf.max("last_fact_at_ms").alias("last_fact_at_ms"))
    return node_writers(events).join(last_facts, on="writer").select("writer", "node", "last_fact_at_ms")
