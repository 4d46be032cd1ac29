"""Sequence gaps that recipients skipped (SPEC 9.5), from their journals."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.model.journal import JournalKind

_THROUGH: Final = r"^through_(\d{1,10})$"


def gaps(events: DataFrame) -> DataFrame:
    """One row a gap. `last_sequence` is null where the event does not say how far it goes."""
    last = sf.regexp_extract(sf.coalesce("code", sf.lit("")), _THROUGH, 1)
    return events.filter(sf.col("kind") == JournalKind.GAP_SKIPPED).select(
        "event_id",
        "at_ms",
        "writer",
        "session_tag",
        sf.col("sequence").alias("first_sequence"),
        sf.when(last != "", last.cast("long")).alias("last_sequence"),
    )
