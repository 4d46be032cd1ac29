"""Which messages a missing fact was probably about (SPEC 13.4).

A hole in a writer's numbers says that a fact is missing, not which. A message that is in flight by its sender's facts,
while its recipient wrote down that it arrived, and whose sender lost facts after the last one about it, is named here.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.model.journal import STATE_AFTER
from restante.model.states import IN_FLIGHT


def suspects(events: DataFrame, messages: DataFrame, journal_holes: DataFrame) -> DataFrame:
    """One row a message: the first hole after the last fact its sender wrote about it."""
    number = sf.conv(sf.hex(sf.substring("event_id", 9, 8)), 16, 10).cast("decimal(20,0)")
    last_told = (
        events.filter(sf.col("kind").isin(*STATE_AFTER) & sf.col("message_id").isNotNull())
        .groupBy("message_id", "writer")
        .agg(sf.max(number).alias("last_number"))
    )
    arrived = messages.filter(
        sf.col("doubt").isNull() & sf.col("state").isin(*IN_FLIGHT) & (sf.col("arrivals") > 0)
    ).select("message_id", "state", "last_fact", "last_fact_at_ms")
    is_after = sf.col("missing_from") > sf.col("last_number")
    return (
        arrived.join(last_told, on="message_id", how="inner")
        .join(journal_holes.select("writer", "missing_from", "missing_to"), on="writer", how="inner")
        .filter(is_after)
        .groupBy("message_id", "writer", "state", "last_fact", "last_fact_at_ms")
        .agg(sf.min(sf.struct("missing_from", "missing_to")).alias("hole"))
        .select(
            "message_id",
            "writer",
            "state",
            sf.col("hole.missing_from").alias("missing_from"),
            sf.col("hole.missing_to").alias("missing_to"),
            "last_fact",
            "last_fact_at_ms",
        )
    )
