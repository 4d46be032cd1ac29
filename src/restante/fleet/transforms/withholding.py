"""Name nodes that acknowledged a message and then did not keep it (SPEC 7.8, 13.5).

A sender's event of a node's signed DELIVERY ack is compared with the node's own events and the recipient's. A node that
still holds the message, served it, or kept it until it expired is not listed. A node whose journal ends before its own
signature is listed only if the message is lost.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from restante.fleet.transforms.node_identities import node_journals
from restante.model.conservation_report import Withheld
from restante.model.states import State

CLOCK_MARGIN_MS: Final = 60_000
"""Two clocks may differ by this much before a node is blamed for it; `ttl_s` alone may be a second short."""


def withholding(hours: DataFrame, messages: DataFrame, replicas: DataFrame) -> DataFrame:
    """One row for each node and message where the node did not keep its word."""
    known = ("message_id", "payload_hash", sf.col("state").alias("message_state"), "arrivals")
    claims = (
        messages.filter(sf.col("message_id").isNotNull())
        .select(*known, sf.inline("confirmed"))
        .groupBy("node", "message_id", "payload_hash", "message_state", "arrivals")
        .agg(sf.min("at_ms").alias("confirmed_at_ms"))
    )
    told = node_journals(hours).groupBy("node").agg(sf.max("last_event_at_ms").alias("node_last_event_at_ms"))
    return (
        claims.join(told, on="node", how="left")
        .join(_kept(replicas), on=["node", "message_id"], how="left")
        .withColumn("has_arrived", (sf.col("arrivals") > 0) | (sf.col("message_state") == State.DELIVERED))
        .withColumn("evidence", _evidence())
        .filter(sf.col("evidence").isNotNull())
        .select(
            "node",
            "message_id",
            "payload_hash",
            "confirmed_at_ms",
            "evidence",
            "message_state",
            "has_arrived",
            "node_last_event_at_ms",
        )
    )


def _kept(replicas: DataFrame) -> DataFrame:
    """What each node says of each message, however it was sealed; a node may have kept several journals in its life.

    An event of a node's signature does not say for which bytes it was: a message that was encrypted again counts as
    stored if the node stored any of them.
    """
    return (
        replicas.filter(sf.col("node").isNotNull() & sf.col("message_id").isNotNull())
        .groupBy("node", "message_id")
        .agg(
            sf.sum("copies_stored").alias("copies_stored"),
            sf.sum("copies_removed").alias("copies_removed"),
            sf.max(sf.coalesce("served_at_ms", "deleted_at_ms")).alias("handed_out_at_ms"),
            sf.max("expires_at_ms").alias("expires_at_ms"),
            sf.max("reaped_at_ms").alias("reaped_at_ms"),
        )
    )


def _evidence() -> Column:
    was_handed_out = sf.col("handed_out_at_ms").isNotNull()
    was_stored = sf.coalesce(sf.col("copies_stored") > 0, sf.lit(False))
    is_gone = sf.col("copies_removed") >= sf.col("copies_stored")
    ended_early = is_gone & (sf.col("reaped_at_ms") < sf.col("expires_at_ms") - CLOCK_MARGIN_MS)
    goes_on = sf.col("node_last_event_at_ms") > sf.col("confirmed_at_ms") + CLOCK_MARGIN_MS
    is_lost = sf.col("message_state").isin(State.EXPIRED, State.DEAD) & ~sf.col("has_arrived")
    return (
        sf.when(was_handed_out, sf.lit(None))
        .when(was_stored & ended_early, Withheld.DROPPED_EARLY)
        .when(was_stored, sf.lit(None))
        .when(goes_on, Withheld.NEVER_STORED)
        .when(is_lost, Withheld.NO_JOURNAL_AND_LOST)
    )
