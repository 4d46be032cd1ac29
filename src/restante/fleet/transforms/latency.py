"""Latency of messages (SPEC 1.7): percentiles for each kind of message and for all together.

Acceptance and delivery are read from the sender's clock, release from the recipient's. Where the two clocks disagree a
latency may be negative; it is reported as measured. Percentiles come from a histogram a day, so that days without new
events are not computed again (SPEC 13.3).
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from restante.fleet.transforms.clock_skew import is_plausible
from restante.fleet.transforms.rounded_times import rounded
from restante.model.conservation_report import HISTOGRAM_EDGES_MS

ACCEPTED_TO_DELIVERED: Final = "accepted_to_delivered"
ACCEPTED_TO_RELEASED: Final = "accepted_to_released"


def latency_days(messages: DataFrame) -> DataFrame:
    """One row for each day of acceptance, span, kind of message and rounded time.

    Inconsistent messages are left out, and so are times that no working clocks give (transforms/clock_skew).
    """
    spans = sf.array(
        _span(ACCEPTED_TO_DELIVERED, "delivery_latency_ms"),
        _span(ACCEPTED_TO_RELEASED, "release_latency_ms"),
    )
    return (
        messages.filter(sf.col("inconsistency").isNull())
        .select("day", "message_kind", sf.inline(spans))
        .filter(is_plausible(sf.col("took_ms")))
        .groupBy("day", "span", "message_kind", rounded(sf.col("took_ms")).alias("rounded_ms"))
        .agg(sf.count(sf.lit(1)).alias("messages"))
        .select("span", "message_kind", "rounded_ms", "messages", "day")
    )


def latency(days: DataFrame) -> DataFrame:
    """One row for each span and kind of message that has times, and one a span for all kinds (`message_kind` null)."""
    percentiles = sf.percentile("rounded_ms", [0.5, 0.9, 0.99], sf.col("messages"))
    return (
        days.groupingSets([["span", "message_kind"], ["span"]], "span", "message_kind")
        .agg(
            sf.grouping("message_kind").alias("is_total"),
            sf.sum("messages").alias("messages"),
            percentiles.alias("percentiles"),
            sf.max("rounded_ms").alias("max_ms"),
        )
        .select(
            "span",
            "message_kind",
            (sf.col("is_total") == 1).alias("is_total"),
            "messages",
            sf.col("percentiles")[0].alias("p50_ms"),
            sf.col("percentiles")[1].alias("p90_ms"),
            sf.col("percentiles")[2].alias("p99_ms"),
            "max_ms",
        )
    )


def latency_histogram(messages: DataFrame) -> DataFrame:
    """How many deliveries of each day took from `lower_bound_ms` up to the next edge; only bars that have any.

    `lower_bound_ms` is null for those that took less than nothing: the sender's clock was set back.
    """
    edges = sf.array(*(sf.lit(edge).cast("long") for edge in HISTOGRAM_EDGES_MS))
    reached = sf.array_max(sf.filter(edges, lambda edge: edge <= sf.col("delivery_latency_ms")))
    return (
        messages.filter(sf.col("inconsistency").isNull() & sf.col("delivery_latency_ms").isNotNull())
        .groupBy("day", reached.alias("lower_bound_ms"))
        .agg(sf.count(sf.lit(1)).alias("messages"))
        .select("lower_bound_ms", "messages", "day")
    )


def _span(name: str, column: str) -> Column:
    return sf.struct(sf.lit(name).alias("span"), sf.col(column).alias("took_ms"))
