"""Map journal writers to nodes: a node journals its id at each start (decision 0020)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf


def node_writers(hours: DataFrame) -> DataFrame:
    """One row a writer that is a node: which, by the last of its starts (transforms/writer_activity)."""
    return (
        hours.filter(sf.col("node").isNotNull())
        .groupBy("writer")
        .agg(sf.max_by("node", "started_event").alias("node"))
        .select("writer", "node")
    )


def node_journals(hours: DataFrame) -> DataFrame:
    """The same, and until when its events have come."""
    last_events = hours.groupBy("writer").agg(sf.max("last_event_at_ms").alias("last_event_at_ms"))
    return node_writers(hours).join(last_events, on="writer").select("writer", "node", "last_event_at_ms")


def current_writers(hours: DataFrame) -> DataFrame:
    """One row a node: the writer whose events came last. A node that got a new file has a new writer."""
    return node_journals(hours).groupBy("node").agg(sf.max_by("writer", "last_event_at_ms").alias("writer"))
