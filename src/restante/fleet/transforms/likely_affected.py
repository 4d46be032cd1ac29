"""Name the messages that a missing event was probably about (SPEC 13.4).

A gap in a writer's numbers says that an event is missing, not which. A message is likely affected if its sender's
events say it is in flight, its recipient journaled its arrival, and the sender's journal has a gap after the last event
about it.
"""

from decimal import Decimal

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf


def likely_affected(in_flight: DataFrame, missing_events: DataFrame) -> DataFrame:
    """Return one row per message, with the first gap after the last event its sender wrote about it."""
    signed = sf.col("last_change_number").cast("decimal(20,0)")
    number = sf.when(signed < 0, signed + sf.lit(Decimal(2**64))).otherwise(signed)
    arrived = in_flight.filter(sf.col("inconsistency").isNull() & (sf.col("arrivals") > 0)).select(
        "message_id",
        sf.col("sender").alias("writer"),
        "state",
        "last_event",
        "last_event_at_ms",
        number.alias("last_number"),
    )
    return (
        arrived.join(missing_events.select("writer", "missing_from", "missing_to"), on="writer", how="inner")
        .filter(sf.col("missing_from") > sf.col("last_number"))
        .groupBy("message_id", "writer", "state", "last_event", "last_event_at_ms")
        .agg(sf.min(sf.struct("missing_from", "missing_to")).alias("gap"))
        .select(
            "message_id",
            "writer",
            "state",
            sf.col("gap.missing_from").alias("missing_from"),
            sf.col("gap.missing_to").alias("missing_to"),
            "last_event",
            "last_event_at_ms",
        )
    )
