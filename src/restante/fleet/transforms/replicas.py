"""Copies of sealed messages at nodes, from the nodes' own events (SPEC 13.3).

A node does not know message ids; the hash of the sealed bytes joins its events to a sender's. transforms/withholding
compares what a node did not journal with what it signed.
"""

from enum import StrEnum
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from restante.fleet.transforms.messages import utc_day
from restante.fleet.transforms.node_identities import node_writers
from restante.model.journal import JournalKind

SECOND_MS: Final = 1_000
KINDS: Final = (JournalKind.STORED, JournalKind.SERVED, JournalKind.DELETED, JournalKind.REAPED)


class ReplicaState(StrEnum):
    """Where the copies of one message at one node are; a node may have been given it more than once (SPEC 6.1)."""

    HELD = "held"
    """At least one copy is still there."""
    DELETED = "deleted"
    """All copies are gone, and the owner deleted at least one."""
    REAPED = "reaped"
    """All copies expired and were reaped; the owner deleted none."""
    UNKNOWN = "unknown"
    """The node wrote later events about it, but no `stored`."""


def replicas(events: DataFrame, messages: DataFrame, hours: DataFrame) -> DataFrame:
    """One row for each node and hash of sealed bytes; `message_id` is null where no sender's events name that hash.

    `hours` is transforms/writer_activity: it says which writer is which node.
    """
    return with_owners(copies_at_nodes(events, hours), messages)


def copies_at_nodes(events: DataFrame, hours: DataFrame) -> DataFrame:
    """The table without the messages that the copies are of."""
    return (
        events.filter(concerns_replica())
        .select("writer", "payload_hash", "kind", "at_ms", "ttl_s", "code", "size_bytes")
        .repartition("payload_hash")  # the key of the join with owners below: one shuffle serves both
        .groupBy("writer", "payload_hash")
        .agg(
            _first(JournalKind.STORED).alias("stored_at_ms"),
            sf.max(
                sf.when(
                    sf.col("kind") == JournalKind.STORED,
                    sf.col("at_ms") + sf.coalesce("ttl_s", sf.lit(0)) * SECOND_MS,
                )
            ).alias("expires_at_ms"),
            _first(JournalKind.SERVED).alias("served_at_ms"),
            _first(JournalKind.DELETED).alias("deleted_at_ms"),
            _first(JournalKind.REAPED).alias("reaped_at_ms"),
            *(_count(kind).alias(kind.value) for kind in KINDS),
            sf.max("size_bytes").alias("size_bytes"),
            sf.min("at_ms").alias("first_at_ms"),
            sf.max("at_ms").alias("last_event_at_ms"),
        )
        .join(sf.broadcast(node_writers(hours)), on="writer", how="left")
        .select(
            "payload_hash",
            "writer",
            "node",
            "size_bytes",
            "stored_at_ms",
            "expires_at_ms",
            "served_at_ms",
            "deleted_at_ms",
            "reaped_at_ms",
            sf.col("stored").alias("copies_stored"),
            (sf.col("deleted") + sf.col("reaped")).alias("copies_removed"),
            _state().alias("state"),
            "last_event_at_ms",
            utc_day(sf.col("first_at_ms")).alias("day"),
        )
    )


def with_owners(copies: DataFrame, messages: DataFrame) -> DataFrame:
    """Name the message that each copy is of.

    A message that was encrypted again has several hashes. If two messages claim one hash, `min` keeps one of them, so
    that no replica counts twice.
    """
    hashes = sf.concat(sf.array("payload_hash"), "other_hashes")
    owners = (
        messages.select(sf.explode(hashes).alias("payload_hash"), "message_id")
        .filter(sf.col("payload_hash").isNotNull())
        .repartition("payload_hash")  # otherwise Spark sorts before and after the shuffle
        .groupBy("payload_hash")
        .agg(sf.min("message_id").alias("message_id"))
    )
    return copies.join(owners, on="payload_hash", how="left").select(
        "payload_hash", "message_id", *(name for name in copies.columns if name != "payload_hash")
    )


def concerns_replica() -> Column:
    """Whether an event is about a node's copy."""
    return sf.col("kind").isin(*KINDS) & sf.col("payload_hash").isNotNull()


def _state() -> Column:
    return (
        sf.when(sf.col("stored") == 0, ReplicaState.UNKNOWN)
        .when(sf.col("stored") > sf.col("deleted") + sf.col("reaped"), ReplicaState.HELD)
        .when(sf.col("deleted") > 0, ReplicaState.DELETED)
        .otherwise(ReplicaState.REAPED)
    )


def _first(kind: JournalKind) -> Column:
    return sf.min(sf.when(sf.col("kind") == kind, sf.col("at_ms")))


def _count(kind: JournalKind) -> Column:
    return sf.count_if(sf.col("kind") == kind)
