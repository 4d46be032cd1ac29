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


def clock_skew(messages: DataFrame) -> DataFrame:
    """Return one row per writer whose clock is off, with the median offset against its correspondents."""
    took = sf.col("release_latency_ms")
    is_known = took.isNotNull() & sf.col("message_id").isNotNull() & sf.col("recipient").isNotNull()
    pairs = messages.filter(is_known).select("sender", "recipient", took)
    ends = sf.array(
        sf.struct(sf.col("recipient").alias("writer"), took.alias("offset_ms")),
        sf.struct(sf.col("sender").alias("writer"), (-took).alias("offset_ms")),
    )
    is_off = ~is_plausible(took)
    return (
        pairs.select(is_off.alias("is_off"), sf.inline(ends))
        .groupBy("writer")
        .agg(
            sf.count(sf.lit(1)).alias("messages"),
            sf.count_if(sf.col("is_off")).alias("impossible"),
            sf.median(sf.when(sf.col("is_off"), sf.col("offset_ms"))).cast("bigint").alias("offset_ms"),
        )
        .filter(sf.col("impossible") * 2 > sf.col("messages"))
        .select("writer", "messages", "impossible", "offset_ms")
    )
