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
    hour = sf.floor(sf.col("at_ms") / HOUR_MS).alias("hour")
    stored_bytes = sf.when(sf.col("kind") == JournalKind.STORED, sf.col("size_bytes"))
    counts = (
        events.select("writer", "at_ms", hour, _number().alias("number"), stored_bytes.alias("stored_bytes"))
        .groupBy("writer", "hour")
        .agg(
            sf.count_if(sf.col("number") != 0).alias("events"),
            sf.max("number").alias("highest"),
            sf.min("number").alias("lowest"),
            sf.max("at_ms").alias("last_event_at_ms"),
            sf.sum("stored_bytes").alias("stored_bytes"),
        )
    )
    # Apart from the counts: for a highest value that is binary, Spark would sort all events.
    starts = (
        events.filter((sf.col("kind") == JournalKind.NODE_STARTED) & sf.col("node").isNotNull())
        .select("writer", hour, "node", "event_id")
        .groupBy("writer", "hour")
        .agg(sf.max_by("node", "event_id").alias("node"), sf.max("event_id").alias("started_event"))
    )
    return _columns(counts.join(sf.broadcast(starts), on=["writer", "hour"], how="left"))


def merged_hours(hours: DataFrame) -> DataFrame:
    """Rows of several sets of events, of which no two have an event in common, as one table."""
    return _columns(
        hours.groupBy("writer", "hour").agg(
            sf.sum("events").alias("events"),
            sf.max("highest").alias("highest"),
            sf.min("lowest").alias("lowest"),
            sf.max("last_event_at_ms").alias("last_event_at_ms"),
            sf.sum("stored_bytes").alias("stored_bytes"),
            sf.max_by("node", "started_event").alias("node"),
            sf.max("started_event").alias("started_event"),
        )
    )


def _columns(hours: DataFrame) -> DataFrame:
    return hours.select(
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


def _number() -> Column:
    """The number of an event as a signed one."""
    return sf.conv(sf.hex(sf.substring("event_id", 9, 8)), 16, -10).cast("long")
