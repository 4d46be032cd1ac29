"""Service levels by hour (SPEC 1.7, 13.3): delivery rate, P50 and P99, duplicates.

The hour is that of acceptance, in UTC. Inconsistent messages are left out; the table `unaccounted` lists them.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from restante.model.states import IN_FLIGHT, State

HOUR_MS: Final = 3_600_000


def service_levels(messages: DataFrame) -> DataFrame:
    """One row for each hour, kind and priority, and one an hour for all of them (`is_total`).

    `delivery_rate` counts ended messages; it is null while all of an hour's messages are in flight.
    `repeated_releases` counts releases to an application beyond the first, `duplicates` the arrivals that the recipient
    recognised as repeated.
    """
    accepted = messages.filter(sf.col("inconsistency").isNull() & sf.col("accepted_at_ms").isNotNull()).withColumn(
        "hour_ms", hour_of(sf.col("accepted_at_ms"))
    )
    percentiles = sf.percentile("delivery_latency_ms", [0.5, 0.99])
    return (
        accepted.groupingSets(
            [["hour_ms", "message_kind", "priority"], ["hour_ms"]], "hour_ms", "message_kind", "priority"
        )
        .agg(
            sf.grouping_id().alias("left_out"),
            sf.count(sf.lit(1)).alias("accepted"),
            sf.count_if(sf.col("state") == State.DELIVERED).alias("delivered"),
            sf.count_if(sf.col("state").isin(*IN_FLIGHT)).alias("in_flight"),
            percentiles.alias("percentiles"),
            sf.sum("duplicates").alias("duplicates"),
            sf.sum(sf.greatest(sf.col("releases") - 1, sf.lit(0))).alias("repeated_releases"),
        )
        .withColumn("ended", sf.col("accepted") - sf.col("in_flight"))
        .select(
            "hour_ms",
            "message_kind",
            "priority",
            (sf.col("left_out") != 0).alias("is_total"),
            "accepted",
            "delivered",
            "in_flight",
            sf.when(sf.col("ended") > 0, sf.col("delivered") / sf.col("ended")).alias("delivery_rate"),
            sf.col("percentiles")[0].alias("p50_ms"),
            sf.col("percentiles")[1].alias("p99_ms"),
            "duplicates",
            "repeated_releases",
        )
    )


def hour_of(at_ms: Column) -> Column:
    """The beginning of the hour of a time."""
    return (sf.floor(at_ms / HOUR_MS) * HOUR_MS).cast("bigint")
