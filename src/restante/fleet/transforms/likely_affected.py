"""Name the messages that a missing event was probably about (SPEC 13.4).

A gap in a writer's numbers says that an event is missing, not which. A message is likely affected if its sender's
events say it is in flight, its recipient journaled its arrival, and the sender's journal has a gap after the last event
about it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.model.journal import STATE_AFTER
from restante.model.states import IN_FLIGHT


def likely_affected(events: DataFrame, messages: DataFrame, missing_events: DataFrame) -> DataFrame:
    """Return one row per message, with the first gap after the last event its sender wrote about it."""
    with_gaps = sf.broadcast(missing_events.select(sf.col("writer").alias("sender")).distinct())
    arrived = (
        messages.filter(sf.col("inconsistency").isNull() & sf.col("state").isin(*IN_FLIGHT) & (sf.col("arrivals") > 0))
        .join(with_gaps, on="sender", how="left_semi")
        .select("message_id", "state", "last_event", "last_event_at_ms")
    )
    number = sf.conv(sf.hex(sf.substring("event_id", 9, 8)), 16, 10).cast("decimal(20,0)")
    last_told = (
        events.filter(sf.col("kind").isin(*STATE_AFTER) & sf.col("message_id").isNotNull())
        .join(sf.broadcast(arrived.select("message_id")), on="message_id", how="left_semi")
        .groupBy("message_id", "writer")
        .agg(sf.max(number).alias("last_number"))
    )
    is_after = sf.col("missing_from") > sf.col("last_number")
    return (
        arrived.join(last_told, on="message_id", how="inner")
        .join(missing_events.select("writer", "missing_from", "missing_to"), on="writer", how="inner")
        .filter(is_after)
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
