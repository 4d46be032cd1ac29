"""Score each node by the rule of SPEC 7.3, measured from the journals.

Rule and weights are those of policy/scoring, here as columns. Decision 0020 says what is measured and how.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from restante.fleet.transforms.node_identities import node_writers
from restante.fleet.transforms.rounded_times import rounded
from restante.policy.scoring import (
    BANDWIDTH_WEIGHT,
    LATENCY_WEIGHT,
    MAX_BANDWIDTH_BPS,
    MAX_LATENCY_MS,
    MIN_LATENCY_MS,
    UPTIME_WEIGHT,
)

HOUR_S: Final = 3_600
BITS: Final = 8


def node_measures(written: DataFrame, answers: DataFrame) -> DataFrame:
    """One row a node: the share of its hours in which it did anything, what it took in, how fast it answered.

    `written` is transforms/writer_activity, `answers` is `node_answers`. A node that no sender timed has the longest
    latency there is, so that it gets no points for latency. The time ends with the last hour in which two writers
    wrote: one clock that is far ahead must not make all nodes look down.
    """
    writers = written.groupBy("hour").agg(sf.count(sf.lit(1)).alias("writers"))
    until = writers.agg(
        sf.coalesce(sf.max(sf.when(sf.col("writers") > 1, sf.col("hour"))), sf.max("hour")).alias("last_hour")
    )
    hours = (
        written.drop("node")
        .join(sf.broadcast(node_writers(written).withColumnRenamed("node", "of_node")), on="writer")
        .join(sf.broadcast(until), how="cross")
        .groupBy("of_node", "last_hour")
        .agg(
            sf.count_distinct("hour").alias("active_hours"),
            sf.count_distinct(sf.when(sf.col("hour") <= sf.col("last_hour"), sf.col("hour"))).alias("hours_until"),
            sf.min("hour").alias("first_hour"),
            sf.sum("stored_bytes").alias("stored_bytes"),
        )
    )
    return hours.join(_median_answers(answers), on=sf.col("of_node") == sf.col("timed_node"), how="left").select(
        sf.col("of_node").alias("node"),
        (sf.col("hours_until") / sf.greatest(sf.col("last_hour") - sf.col("first_hour") + 1, sf.lit(1))).alias(
            "uptime"
        ),
        sf.least(
            sf.floor(sf.coalesce("stored_bytes", sf.lit(0)) * BITS / (sf.col("active_hours") * HOUR_S)),
            sf.lit(MAX_BANDWIDTH_BPS),
        ).alias("bandwidth_bps"),
        sf.least(sf.coalesce("answer_ms", sf.lit(MAX_LATENCY_MS)), sf.lit(MAX_LATENCY_MS)).alias("latency_ms"),
    )


def node_answers(messages: DataFrame) -> DataFrame:
    """One row for each day of acceptance, node and rounded time from an attempt to the node's signed answer."""
    return (
        messages.filter(sf.col("message_id").isNotNull())
        .select("day", sf.inline("confirmed"))
        .groupBy("day", "node", rounded(sf.col("took_ms")).alias("rounded_ms"))
        .agg(sf.count(sf.lit(1)).alias("answers"))
        .select("node", "rounded_ms", "answers", "day")
    )


def _median_answers(answers: DataFrame) -> DataFrame:
    """The median time of a node's answers, by the senders' clocks alone."""
    return answers.groupBy(sf.col("node").alias("timed_node")).agg(
        sf.percentile("rounded_ms", 0.5, sf.col("answers")).alias("answer_ms")
    )


def node_scores(measures: DataFrame, withholding: DataFrame) -> DataFrame:
    """One row a node with its score (SPEC 7.3), and how often it did not keep its word."""
    all_nodes = Window.partitionBy(sf.lit(1))
    latency = sf.greatest(sf.col("latency_ms"), sf.lit(MIN_LATENCY_MS))
    most_bps = sf.max("bandwidth_bps").over(all_nodes)
    bandwidth = sf.when(most_bps > 0, sf.col("bandwidth_bps") / most_bps).otherwise(sf.lit(0.0))
    speed = sf.min(latency).over(all_nodes) / latency
    score = UPTIME_WEIGHT * sf.col("uptime") + BANDWIDTH_WEIGHT * bandwidth + LATENCY_WEIGHT * speed
    withheld = withholding.groupBy("node").agg(sf.count(sf.lit(1)).alias("withheld"))
    return (
        measures.withColumn("score", score)
        .join(withheld, on="node", how="left")
        .select(
            "node",
            "uptime",
            "bandwidth_bps",
            "latency_ms",
            "score",
            sf.coalesce("withheld", sf.lit(0)).alias("withheld"),
        )
    )
