"""Copies that a node confirmed and, by its own journal, does not have: a reason to send a message again or to copy it.

That accuses no node: only what it signed does (transforms/withholding). A node that still holds the message, handed it
out, or kept it until it expired has not lost it. A node whose journal ends before its confirmation is not judged.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from restante.fleet.transforms.node_identities import node_journals

CLOCK_MARGIN_MS: Final = 60_000
"""Two clocks may differ by this much; `ttl_s` alone may be a second short."""


def lost_copies(hours: DataFrame, messages: DataFrame, replicas: DataFrame) -> DataFrame:
    """One row for each node and message of which the node lost its copy, with the time of the event that tells so: its
    removal, or the confirmation of a copy that the node never journaled."""
    claims = (
        messages.select("message_id", sf.inline("confirmed"))
        .groupBy("node", "message_id")
        .agg(sf.min("at_ms").alias("confirmed_at_ms"))
    )
    told = node_journals(hours).groupBy("node").agg(sf.max("last_event_at_ms").alias("node_last_event_at_ms"))
    return (
        claims.join(sf.broadcast(told), on="node", how="inner")
        .join(_kept(replicas), on=["node", "message_id"], how="left")
        .filter(_is_lost())
        .select("node", "message_id", sf.coalesce("reaped_at_ms", "confirmed_at_ms").alias("lost_at_ms"))
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


def was_reaped_early() -> Column:
    """Whether a copy was reaped before it expired: by a clock that was wrong."""
    return sf.col("reaped_at_ms") < sf.col("expires_at_ms") - CLOCK_MARGIN_MS


def _is_lost() -> Column:
    was_handed_out = sf.col("handed_out_at_ms").isNotNull()
    was_stored = sf.coalesce(sf.col("copies_stored") > 0, sf.lit(False))
    is_gone = sf.col("copies_removed") >= sf.col("copies_stored")
    ended_early = is_gone & was_reaped_early()
    goes_on = sf.col("node_last_event_at_ms") > sf.col("confirmed_at_ms") + CLOCK_MARGIN_MS
    return ~was_handed_out & sf.when(was_stored, sf.coalesce(ended_early, sf.lit(False))).otherwise(goes_on)
