"""Name journal writers whose clocks are far off (SPEC 13.3, 13.4).

A message links two clocks: its sender journals the acceptance, its recipient the release. A release a day before the
acceptance, or longer after it than any message lives, is impossible. A writer is named if most of its messages are.
Where two writers only wrote to each other, both are named: the events do not say whose clock it is.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

DAY_MS: Final = 86_400_000
EARLIEST_MS: Final = -DAY_MS
LATEST_MS: Final = 61 * DAY_MS
"""Mail lives 30 days in an outbox and 30 days at a node at most, and clocks may differ by a day."""


def is_plausible(latency_ms: Column) -> Column:
    """Whether two working clocks can give this time from acceptance to release."""
    return latency_ms.between(EARLIEST_MS, LATEST_MS)


def clock_offsets(messages: DataFrame) -> DataFrame:
    """One row for each day of acceptance, writer and impossible offset, and one for all possible ones (null)."""
    took = sf.col("release_latency_ms")
    is_known = took.isNotNull() & sf.col("message_id").isNotNull() & sf.col("recipient").isNotNull()
    offset = sf.when(~is_plausible(took), took)
    ends = sf.array(
        sf.struct(sf.col("recipient").alias("writer"), offset.alias("offset_ms")),
        sf.struct(sf.col("sender").alias("writer"), (-offset).alias("offset_ms")),
    )
    return (
        messages.filter(is_known)
        .select("day", sf.inline(ends))
        .groupBy("day", "writer", "offset_ms")
        .agg(sf.count(sf.lit(1)).alias("messages"))
        .select("writer", "offset_ms", "messages", "day")
    )


def clock_skew(offsets: DataFrame) -> DataFrame:
    """Return one row per writer whose clock is off, with the median offset against its correspondents."""
    return (
        offsets.groupBy("writer")
        .agg(
            sf.sum("messages").alias("messages"),
            sf.sum(sf.when(sf.col("offset_ms").isNotNull(), sf.col("messages"))).alias("impossible"),
            sf.percentile("offset_ms", 0.5, sf.col("messages")).cast("bigint").alias("offset_ms"),
        )
        .filter(sf.col("impossible") * 2 > sf.col("messages"))
        .select("writer", "messages", "impossible", "offset_ms")
    )
