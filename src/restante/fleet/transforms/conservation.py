"""The books (SPEC 1.4, 13.4): of what was accepted, what became of it, and what cannot be accounted for.

Two things are unaccounted for: a message whose facts contradict each other (its `doubt`, see transforms/messages), and
a fact whose number a writer gave out but which never came. The last facts of a writer leave no such hole: a message
whose end is still to be shipped is in flight.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from restante.fleet.transforms.writer_activity import writer_hours
from restante.model.states import IN_FLIGHT, State

DAY_MS: Final = 86_400_000
ENDS: Final = (State.DELIVERED, State.EXPIRED, State.EVICTED, State.DEAD)


def books(messages: DataFrame) -> DataFrame:
    """One row a UTC day of acceptance. A message without a known acceptance is entered on the day of its first fact.

    `adds_up` is false where a message is unaccounted for that is not among the accepted ones.
    """
    accounted = sf.col("doubt").isNull()
    counts = [sf.count_if(accounted & (sf.col("state") == end)).alias(end.value) for end in ENDS]
    in_flight = sf.count_if(accounted & sf.col("state").isin(*IN_FLIGHT))
    columns = [*(end.value for end in ENDS), "in_flight", "unaccounted"]
    total = sum((sf.col(name) for name in columns), sf.lit(0))
    return (
        messages.groupBy(_utc_day(sf.coalesce("accepted_at_ms", "first_fact_at_ms")).alias("day"))
        .agg(
            sf.count("accepted_at_ms").alias("accepted"),
            *counts,
            in_flight.alias("in_flight"),
            sf.count("doubt").alias("unaccounted"),
        )
        .select("day", "accepted", *columns, (sf.col("accepted") == total).alias("adds_up"))
    )


def unaccounted(messages: DataFrame) -> DataFrame:
    """The messages in doubt by id, with the reason and the last fact known."""
    return messages.filter(sf.col("doubt").isNotNull()).select(
        "message_id", "doubt", "state", "first_fact_at_ms", "last_fact", "last_fact_at_ms"
    )


def journal_holes(events: DataFrame) -> DataFrame:
    """One row for every run of numbers missing from a writer's facts, with the fact before it: numbers start at 1."""
    in_order = Window.partitionBy("writer").orderBy("event_id")
    before = sf.coalesce(sf.lag("number").over(in_order), sf.lit(0))
    return (
        _of_writers_with_holes(events)
        .withColumn("number", _number())
        .select(
            "writer",
            (before + 1).cast("decimal(20,0)").alias("missing_from"),
            (sf.col("number") - 1).cast("decimal(20,0)").alias("missing_to"),
            sf.lag("kind").over(in_order).alias("last_fact"),
            sf.lag("at_ms").over(in_order).alias("last_fact_at_ms"),
            sf.lag("message_id").over(in_order).alias("last_message_id"),
        )
        .filter(sf.col("missing_from") <= sf.col("missing_to"))
    )


def _of_writers_with_holes(events: DataFrame) -> DataFrame:
    """No two facts of a writer have one number: as many as the highest of them says are all, and need no sorting."""
    short = (
        writer_hours(events)
        .groupBy("writer")
        .agg(sf.max("highest").alias("highest"), sf.min("lowest").alias("lowest"), sf.sum("facts").alias("facts"))
        .filter((sf.col("highest") != sf.col("facts")) | (sf.col("lowest") < 0))
    )
    # Told to everybody, or Spark would send all facts around before it knows that nobody's are short.
    return events.join(sf.broadcast(short.select("writer")), on="writer", how="left_semi")


def _number() -> Column:
    return sf.conv(sf.hex(sf.substring("event_id", 9, 8)), 16, 10).cast("decimal(20,0)")


def _utc_day(at_ms: Column) -> Column:
    """Independent of the session's time zone."""
    return sf.date_from_unix_date(sf.floor(at_ms / DAY_MS).cast("int"))
