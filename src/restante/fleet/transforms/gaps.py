"""Sequence gaps that recipients skipped (SPEC 9.5), from their journals."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.model.journal import JournalKind


def gaps(events: DataFrame) -> DataFrame:
    """One row a gap. `last_sequence` is null where the event does not say how far it goes."""
    return events.filter(sf.col("kind") == JournalKind.GAP_SKIPPED).select(
        "event_id",
        "at_ms",
        "writer",
        "session_tag",
        sf.col("sequence").alias("first_sequence"),
        "last_sequence",
    )
