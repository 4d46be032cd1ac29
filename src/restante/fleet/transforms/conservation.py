"""The conservation table (SPEC 1.4, 13.4): the state of every accepted message, by day, and what is unaccounted for.

Two things are unaccounted for: a message whose events contradict each other (column `inconsistency`, see
transforms/messages), and an event whose number a writer used but which never came. Unshipped events at the end of a
journal leave no gap in the numbers: such a message is in flight.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from restante.model.states import IN_FLIGHT, State

ENDS: Final = (State.DELIVERED, State.EXPIRED, State.EVICTED, State.DEAD)


def conservation(messages: DataFrame) -> DataFrame:
    """One row a UTC day of acceptance. A message without a known acceptance is entered on the day of its first event.

    `is_balanced` is false where a message is unaccounted for that is not among the accepted ones.
    """
    accounted = sf.col("inconsistency").isNull()
    counts = [sf.count_if(accounted & (sf.col("state") == end)).alias(end.value) for end in ENDS]
    in_flight = sf.count_if(accounted & sf.col("state").isin(*IN_FLIGHT))
    columns = [*(end.value for end in ENDS), "in_flight", "unaccounted"]
    total = sum((sf.col(name) for name in columns), sf.lit(0))
    return (
        messages.groupBy("day")
        .agg(
            sf.count("accepted_at_ms").alias("accepted"),
            *counts,
            in_flight.alias("in_flight"),
            sf.count("inconsistency").alias("unaccounted"),
        )
        .select("day", "accepted", *columns, (sf.col("accepted") == total).alias("is_balanced"))
    )


def unaccounted(messages: DataFrame) -> DataFrame:
    """The messages in inconsistency by id, with the reason and the last event known."""
    return messages.filter(sf.col("inconsistency").isNotNull()).select(
        "message_id", "inconsistency", "state", "first_event_at_ms", "last_event", "last_event_at_ms"
    )


def missing_events(events: DataFrame, hours: DataFrame) -> DataFrame:
    """One row for every run of numbers missing from a writer's events, with the event before it: numbers start at 1.

    `hours` is transforms/writer_activity of the same events. Only events of writers with a gap are read.
    """
    in_order = Window.partitionBy("writer").orderBy("event_id")
    before = sf.coalesce(sf.lag("number").over(in_order), sf.lit(0))
    return (
        _of_writers_with_missing_events(events, hours)
        .withColumn("number", _number())
        .select(
            "writer",
            (before + 1).cast("decimal(20,0)").alias("missing_from"),
            (sf.col("number") - 1).cast("decimal(20,0)").alias("missing_to"),
            sf.lag("kind").over(in_order).alias("last_event"),
            sf.lag("at_ms").over(in_order).alias("last_event_at_ms"),
            sf.lag("message_id").over(in_order).alias("last_message_id"),
        )
        .filter(sf.col("missing_from") <= sf.col("missing_to"))
    )


def _of_writers_with_missing_events(events: DataFrame, hours: DataFrame) -> DataFrame:
    """No two events of a writer have one number: as many as the highest of them says are all, and need no sorting."""
    short = (
        hours.groupBy("writer")
        .agg(sf.max("highest").alias("highest"), sf.min("lowest").alias("lowest"), sf.sum("events").alias("events"))
        .filter((sf.col("highest") != sf.col("events")) | (sf.col("lowest") < 0))
    )
    # Broadcast this side; otherwise Spark shuffles all events even when no writer has a gap.
    return events.join(sf.broadcast(short.select("writer")), on="writer", how="left_semi")


def _number() -> Column:
    return sf.conv(sf.hex(sf.substring("event_id", 9, 8)), 16, 10).cast("decimal(20,0)")
