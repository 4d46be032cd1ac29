"""Map journal writers to nodes: a node journals its id at each start (decision 0020)."""

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
    """The same, and until when its events have come."""
    last_events = writer_hours(events).groupBy("writer").agg(sf.max("last_event_at_ms").alias("last_event_at_ms"))
    return node_writers(events).join(last_events, on="writer").select("writer", "node", "last_event_at_ms")
