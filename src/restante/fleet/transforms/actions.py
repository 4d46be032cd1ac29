"""Actions for nodes and clients, proposed from the other tables (SPEC 13.6). None of them deletes mail.

The client or node that applies an action checks its own file first (runtime/sqlite/outbox/fleet_actions). `event_at_ms`
is the time of the event that an action answers; if a newer event exists there, the action is void: a message that was
tried again, a copy that is there again.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from restante.fleet.transforms.lost_copies import lost_copies, was_reaped_early
from restante.fleet.transforms.node_identities import current_writers
from restante.fleet.transforms.replicas import ReplicaState
from restante.model.fleet_actions import ActionKind
from restante.model.states import IN_FLIGHT, State
from restante.policy.scoring import REPLICATION

REPAIRS_PER_TARGET: Final = 1_000
"""Proposals of one report to one node. One suffices for a round that brings all copies (core/fleet/repair_proposals);
a node that lost its disk would else get a line for each blob it ever had."""
RETRANSMIT_PAUSE_MS: Final = 60_000
"""As in core/retransmit: what left less than a minute ago may still be on its way."""


def actions(
    *,
    hours: DataFrame,
    messages: DataFrame,
    replicas: DataFrame,
    dead_letters: DataFrame,
    node_scores: DataFrame,
    now_ms: int,
) -> DataFrame:
    """One row per proposal; `target` is the writer it is for, null for all.

    `messages` and `replicas` are those in flight (transforms/in_flight).
    """
    lost = lost_copies(hours, messages, replicas)
    return (
        _retransmit(messages, replicas, lost, now_ms)
        .unionByName(_repair(hours, messages, replicas, lost))
        .unionByName(_redrive(dead_letters, now_ms))
        .unionByName(_scoreboard(node_scores))
        .select(
            "action",
            "target",
            "message_id",
            "payload_hash",
            "node",
            "score",
            "event_at_ms",
            "reason",
            sf.lit(now_ms).cast("long").alias("as_of_ms"),
        )
    )


def _retransmit(messages: DataFrame, replicas: DataFrame, lost: DataFrame, now_ms: int) -> DataFrame:
    """A message that counts as sent, of which no node holds a copy or handed one out, and which did not arrive.

    Only where something speaks for the loss: a copy that was reaped, or a node that lost its copy.
    """
    copies = replicas.groupBy("payload_hash").agg(
        sf.count_if(sf.col("state").isin(ReplicaState.HELD, ReplicaState.DELETED)).alias("safe_copies"),
        sf.count_if(sf.col("state") == ReplicaState.REAPED).alias("reaped_copies"),
    )
    lost_by_nodes = lost.groupBy("message_id").agg(sf.count(sf.lit(1)).alias("lost_copies"))
    is_lost = (
        (sf.col("state") == State.SENT)
        & sf.col("inconsistency").isNull()
        & (sf.col("arrivals") == 0)
        & (sf.coalesce("safe_copies", sf.lit(0)) == 0)
        & (sf.coalesce("reaped_copies", sf.lit(0)) + sf.coalesce("lost_copies", sf.lit(0)) > 0)
        & (sf.col("last_attempt_at_ms") <= now_ms - RETRANSMIT_PAUSE_MS)
    )
    return (
        messages.join(copies, on="payload_hash", how="left")
        .join(lost_by_nodes, on="message_id", how="left")
        .filter(is_lost)
        .select(
            *_row(
                ActionKind.RETRANSMIT,
                target=sf.col("sender"),
                message_id=sf.col("message_id"),
                payload_hash=sf.col("payload_hash"),
                event_at_ms=sf.col("last_attempt_at_ms"),
                reason=sf.lit("no_copy_left"),
            )
        )
    )


def _repair(hours: DataFrame, messages: DataFrame, replicas: DataFrame, lost: DataFrame) -> DataFrame:
    """A message on its way that fewer nodes hold than should: each node that lost its copy fetches it from a neighbour.

    A node only pulls (core/replication), so that nothing is proposed where no copy is left: that is `_retransmit`.
    """
    alive = messages.filter(sf.col("state").isin(*IN_FLIGHT) & (sf.col("arrivals") == 0))
    copies = replicas.join(alive.select("message_id", "payload_hash"), on=["message_id", "payload_hash"])
    holders = copies.filter(sf.col("state") == ReplicaState.HELD).select("message_id", "payload_hash", _node())
    too_few = (
        holders.groupBy("message_id", "payload_hash")
        .agg(sf.count_distinct("who").alias("copies"))
        .filter(sf.col("copies") < REPLICATION)
    )
    reaped = copies.filter((sf.col("state") == ReplicaState.REAPED) & was_reaped_early())
    losers = (
        reaped.select("message_id", _node(), sf.col("reaped_at_ms").alias("lost_at_ms"))
        .union(lost.select("message_id", sf.col("node").alias("who"), "lost_at_ms"))
        .groupBy("message_id", "who")
        .agg(sf.max("lost_at_ms").alias("lost_at_ms"))
        .join(holders, on=["message_id", "who"], how="left_anti")
    )
    writers = current_writers(hours).withColumnRenamed("node", "who")
    proposals = (
        too_few.join(losers, on="message_id")
        .join(sf.broadcast(writers), on="who", how="left")
        .select(
            *_row(
                ActionKind.REPAIR,
                target=sf.coalesce("writer", "who"),
                payload_hash=sf.col("payload_hash"),
                event_at_ms=sf.col("lost_at_ms"),
                reason=sf.lit("too_few_copies"),
            )
        )
    )
    longest_first = Window.partitionBy("target").orderBy("event_at_ms", "payload_hash")
    return (
        proposals.withColumn("place", sf.row_number().over(longest_first))
        .filter(sf.col("place") <= REPAIRS_PER_TARGET)
        .drop("place")
    )


def _node() -> Column:
    """The node of a copy, or its writer if that journaled no start."""
    return sf.coalesce("node", "writer").alias("who")


def _redrive(dead_letters: DataFrame, now_ms: int) -> DataFrame:
    """Dead letters whose daily retry is due (SPEC 5.3)."""
    return dead_letters.filter(sf.col("next_retry_at_ms") <= now_ms).select(
        *_row(
            ActionKind.REDRIVE,
            target=sf.col("sender"),
            message_id=sf.col("message_id"),
            event_at_ms=sf.col("moved_at_ms"),
            reason=sf.lit("daily_retry_due"),
        )
    )


def _scoreboard(node_scores: DataFrame) -> DataFrame:
    """Every node with its score, for clients that choose one."""
    reason = sf.when(sf.col("withheld") > 0, sf.lit("withheld")).otherwise(sf.lit("measured"))
    return node_scores.select(*_row(ActionKind.SCOREBOARD, node=sf.col("node"), score=sf.col("score"), reason=reason))


def _row(
    action: ActionKind,
    *,
    reason: Column,
    target: Column | None = None,
    message_id: Column | None = None,
    payload_hash: Column | None = None,
    node: Column | None = None,
    score: Column | None = None,
    event_at_ms: Column | None = None,
) -> list[Column]:
    nothing = sf.lit(None)
    return [
        sf.lit(action.value).alias("action"),
        (nothing if target is None else target).cast("binary").alias("target"),
        (nothing if message_id is None else message_id).cast("binary").alias("message_id"),
        (nothing if payload_hash is None else payload_hash).cast("binary").alias("payload_hash"),
        (nothing if node is None else node).cast("binary").alias("node"),
        (nothing if score is None else score).cast("double").alias("score"),
        (nothing if event_at_ms is None else event_at_ms).cast("long").alias("event_at_ms"),
        reason.alias("reason"),
    ]
