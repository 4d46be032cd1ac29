"""Per writer and hour: number of events, range of event numbers, latest time, bytes stored, which node it is.

One pass over all events with a small result, for the tables about writers (missing events, nodes).
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from restante.model.journal import JournalKind

HOUR_MS: Final = 3_600_000
HOURS_PER_DAY: Final = 24


def writer_hours(events: DataFrame) -> DataFrame:
    """One row for each writer and hour of its events.

    `highest` and `lowest` are of the events' numbers, and below zero from 2**63 on; `events` are those with any number
    but zero. `node` is which node the writer is, by its last start in the hour.
    """
    is_stored = sf.col("kind") == JournalKind.STORED
    is_start = (sf.col("kind") == JournalKind.NODE_STARTED) & sf.col("node").isNotNull()
    return (
        events.select(
            "writer",
            "at_ms",
            sf.floor(sf.col("at_ms") / HOUR_MS).alias("hour"),
            _number().alias("number"),
            sf.when(is_stored, sf.col("size_bytes")).alias("stored_bytes"),
            sf.when(is_start, sf.col("node")).alias("node"),
            sf.when(is_start, sf.col("event_id")).alias("started_event"),
        )
        .groupBy("writer", "hour")
        .agg(
            sf.count_if(sf.col("number") != 0).alias("events"),
            sf.max("number").alias("highest"),
            sf.min("number").alias("lowest"),
            sf.max("at_ms").alias("last_event_at_ms"),
            sf.sum("stored_bytes").alias("stored_bytes"),
            sf.max_by("node", "started_event").alias("node"),
            sf.max("started_event").alias("started_event"),
        )
        .select(
            "writer",
            "hour",
            "events",
            "highest",
            "lowest",
            "last_event_at_ms",
            "stored_bytes",
            "node",
            "started_event",
            sf.date_from_unix_date(sf.floor(sf.col("hour") / HOURS_PER_DAY).cast("int")).alias("day"),
        )
    )


def _number() -> Column:
    """The number of an event as a signed one."""
    return sf.conv(sf.hex(sf.substring("event_id", 9, 8)), 16, -10).cast("long")
