"""The conservation table (SPEC 1.4, 13.4): the state of every accepted message, by day, and what is unaccounted for.

Two things are unaccounted for: a message whose events contradict each other (column `inconsistency`, see
transforms/messages), and an event whose number a writer used but which never came. Unshipped events at the end of a
journal leave no gap in the numbers: such a message is in flight.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from restante.model.states import IN_FLIGHT, State

HOUR_MS: Final = 3_600_000
ENDS: Final = (State.DELIVERED, State.EXPIRED, State.EVICTED, State.DEAD)
COUNTS: Final = ("accepted", *(end.value for end in ENDS), "in_flight", "unaccounted")
"""The first is to be the sum of the others."""


def conservation(messages: DataFrame) -> DataFrame:
    """One row a UTC day of acceptance. A message without a known acceptance is entered on the day of its first event.

    A message is `stored_never_arrived` if a node confirmed it, and it ended without a sign of its recipient: that
    accuses no node (SPEC 13.5).
    """
    accounted = sf.col("inconsistency").isNull()
    counts = [sf.count_if(accounted & (sf.col("state") == end)).alias(end.value) for end in ENDS]
    in_flight = sf.count_if(accounted & sf.col("state").isin(*IN_FLIGHT))
    is_lost = accounted & sf.col("state").isin(State.EXPIRED, State.DEAD) & (sf.col("arrivals") == 0)
    never_arrived = sf.count_if(is_lost & (sf.size("confirmed") > 0))
    return balanced(
        messages.groupBy("day").agg(
            sf.count("accepted_at_ms").alias("accepted"),
            *counts,
            in_flight.alias("in_flight"),
            sf.count("inconsistency").alias("unaccounted"),
            never_arrived.alias("stored_never_arrived"),
        )
    )


def balanced(days: DataFrame) -> DataFrame:
    """Add `is_balanced`: false where a message is unaccounted for that is not among the accepted ones."""
    accepted, *others = COUNTS
    total = sum((sf.col(name) for name in others), sf.lit(0))
    return days.select("day", *COUNTS, (sf.col(accepted) == total).alias("is_balanced"), "stored_never_arrived")


def unaccounted(messages: DataFrame) -> DataFrame:
    """The messages in inconsistency by id, with the reason and the last event known."""
    return messages.filter(sf.col("inconsistency").isNotNull()).select(
        "message_id", "inconsistency", "state", "first_event_at_ms", "last_event", "last_event_at_ms"
    )


def missing_events(events: DataFrame, hours: DataFrame) -> DataFrame:
    """One row for every run of numbers missing from a writer's events, with the event before it: numbers start at 1.

    `hours` is transforms/writer_activity of the same events. An hour whose numbers have no gap counts as one run. Of
    other hours, and for the event before a gap, events are read: those of the days that `days_to_search` names.
    """
    in_order = Window.partitionBy("writer").orderBy("first")
    pieces = _hours_of_writers_with_missing_events(hours)
    runs = pieces.filter(_is_run()).select("writer", *(_decimal(name).alias(name) for name in ("first", "last")))
    broken = pieces.filter(~_is_run()).select("writer", "hour")
    hour = sf.floor(sf.col("at_ms") / HOUR_MS).alias("hour")
    numbers = (
        events.select("writer", hour, _number().alias("first"))
        .join(sf.broadcast(broken), on=["writer", "hour"], how="left_semi")
        .select("writer", "first", sf.col("first").alias("last"))
    )
    # The highest so far, not the last: a writer whose clock was set back has numbers among those of deleted days.
    before = sf.coalesce(sf.max("last").over(in_order.rowsBetween(Window.unboundedPreceding, -1)), sf.lit(0))
    gaps = (
        runs.unionByName(numbers)
        .select(
            "writer",
            (before + 1).cast("decimal(20,0)").alias("missing_from"),
            (sf.col("first") - 1).cast("decimal(20,0)").alias("missing_to"),
        )
        .filter(sf.col("missing_from") <= sf.col("missing_to"))
        .withColumn("event_id", _event_id(sf.col("missing_from") - 1))
    )
    known = events.select("event_id", "writer", "kind", "at_ms", "message_id").join(
        sf.broadcast(gaps.select("event_id", "writer")), on=["event_id", "writer"], how="left_semi"
    )
    return gaps.join(known, on=["event_id", "writer"], how="left").select(
        "writer",
        "missing_from",
        "missing_to",
        sf.col("kind").alias("last_event"),
        sf.col("at_ms").alias("last_event_at_ms"),
        sf.col("message_id").alias("last_message_id"),
    )


def with_deleted_days(hours: DataFrame, retained_from: str) -> DataFrame:
    """`hours` with one row for each writer's deleted days, as if none of its numbers up to their highest were missing.

    Which of them are missing cannot be seen any more once their events are deleted.
    """
    deleted = sf.col("day") < retained_from
    known = hours.select("writer", "hour", "events", "highest", "lowest", "day")
    one = (
        known.filter(deleted)
        .groupBy("writer")
        .agg(
            sf.max("hour").alias("hour"),
            sf.max("highest").alias("events"),
            sf.max("highest").alias("highest"),
            sf.lit(1).cast("bigint").alias("lowest"),
            sf.max("day").alias("day"),
        )
    )
    return known.filter(~deleted).unionByName(one)


def days_to_search(hours: DataFrame) -> DataFrame:
    """The days of events that `missing_events` reads: of hours with a gap inside or right after them."""
    in_order = Window.partitionBy("writer").orderBy("first")
    following = sf.lead("first").over(in_order)
    is_followed = sf.coalesce(following == sf.col("last") + 1, following.isNull())
    pieces = _hours_of_writers_with_missing_events(hours).withColumn("is_followed", is_followed)
    return pieces.filter(~(_is_run() & sf.col("is_followed"))).select("day").distinct()


def _hours_of_writers_with_missing_events(hours: DataFrame) -> DataFrame:
    """No two events of a writer have one number: as many as the highest of them says are all."""
    short = (
        hours.groupBy("writer")
        .agg(sf.max("highest").alias("highest"), sf.min("lowest").alias("lowest"), sf.sum("events").alias("events"))
        .filter((sf.col("highest") != sf.col("events")) | (sf.col("lowest") < 0))
    )
    # Broadcast this side; otherwise Spark shuffles all hours even when no writer has a gap.
    found = hours.join(sf.broadcast(short.select("writer")), on="writer", how="left_semi")
    return found.select(
        "writer", "hour", "events", "day", sf.col("lowest").alias("first"), sf.col("highest").alias("last")
    )


def _is_run() -> Column:
    """Whether the numbers of an hour have no gap. Numbers from 2**63 on are below zero here, and looked at singly."""
    return (sf.col("first") > 0) & (sf.col("last") - sf.col("first") + 1 == sf.col("events"))


def _number() -> Column:
    return sf.conv(sf.hex(sf.substring("event_id", 9, 8)), 16, 10).cast("decimal(20,0)")


def _decimal(name: str) -> Column:
    return sf.col(name).cast("decimal(20,0)")


def _event_id(number: Column) -> Column:
    """The event of the writer that has this number (model.ids.event_id)."""
    digits = sf.lpad(sf.conv(number.cast("decimal(20,0)").cast("string"), 10, 16), 16, "0")
    return sf.concat(sf.substring("writer", 1, 8), sf.unhex(digits))
