"""One row a message: its life and where it stands, told from the facts about it (SPEC 13.3).

Which fact leads to which state is the table in model/journal. Here is decided only when the facts of a message cannot
all be true; such a message has a `doubt` and is not accounted for.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from restante.fleet.arrow_map import ROWS_PER_ARROW_BATCH, map_in_arrow
from restante.fleet.kernels.messages import ARRIVED_AGAIN, KINDS, LIVES, NOTHING, STATES, lives_of
from restante.fleet.kernels.tables import ZERO_MARK
from restante.fleet.words import number_of, word_of
from restante.model.journal import STATE_AFTER, JournalKind
from restante.model.states import ENDED, State, Verdict


class Doubt(StrEnum):
    """Why the facts about a message cannot be the whole truth (SPEC 1.4)."""

    NAMELESS = "nameless"
    """Facts that change a message's state but name no message; all of them together are one row."""
    NEVER_ACCEPTED = "never_accepted"
    """It is known, but no fact tells of its acceptance."""
    ACCEPTED_LATE = "accepted_late"
    """It was accepted when it had a state already: twice, or after something else."""
    MOVED_AFTER_END = "moved_after_end"
    """It ended, and then its state changed without a recovery."""
    RECOVERED_ALIVE = "recovered_alive"
    """It was recovered though it was no dead letter (SPEC 5.4)."""
    SEVERAL_SENDERS = "several_senders"
    """More than one writer says to have changed its state."""


_FACT_DOUBTS: Final = (Doubt.ACCEPTED_LATE, Doubt.RECOVERED_ALIVE, Doubt.MOVED_AFTER_END)
"""In the order of their numbers in the kernel."""


def lives(events: DataFrame, *, partitions: int | None = None) -> DataFrame:
    """All that one look at the facts of each message tells: what `messages` has, and what other tables are made of.

    In `partitions` tasks, or as many as the session has for any shuffle. Among a writer's facts their number decides
    what came last, not a clock.
    """
    facts = _facts(events)
    by_message = facts.repartition("message_id") if partitions is None else facts.repartition(partitions, "message_id")
    return (
        map_in_arrow(by_message, _live, LIVES)
        .withColumn("state", word_of("state", STATES))
        .select(
            "message_id",
            sf.col("first_sender").alias("sender"),
            "message_kind",
            "priority",
            "payload_hash",
            "size_bytes",
            "ttl_s",
            "accepted_at_ms",
            "state",
            "last_code",
            sf.when(sf.col("state").isin(*ENDED), sf.col("state_at_ms")).alias("ended_at_ms"),
            "attempts",
            "last_attempt_at_ms",
            "sent_at_ms",
            _since_acceptance("sent_at_ms", sf.col("sent_at_ms").isNotNull()).alias("send_latency_ms"),
            _since_acceptance("state_at_ms", sf.col("state") == State.DELIVERED).alias("delivery_latency_ms"),
            "released_at_ms",
            _since_acceptance("released_at_ms", sf.col("released_at_ms").isNotNull()).alias("release_latency_ms"),
            "read_at_ms",
            "arrivals",
            "duplicates",
            "releases",
            "first_fact_at_ms",
            word_of("last_fact", KINDS).alias("last_fact"),
            "last_fact_at_ms",
            _doubt().alias("doubt"),
            "other_hashes",
            "confirmed",
        )
    )


def messages(told: DataFrame) -> DataFrame:
    """The messages that facts tell of, from their `lives`."""
    return told.select(
        "message_id",
        "sender",
        "message_kind",
        "priority",
        "payload_hash",
        "size_bytes",
        "ttl_s",
        "accepted_at_ms",
        "state",
        "last_code",
        "ended_at_ms",
        "attempts",
        "last_attempt_at_ms",
        "sent_at_ms",
        "send_latency_ms",
        "delivery_latency_ms",
        "released_at_ms",
        "release_latency_ms",
        "read_at_ms",
        "arrivals",
        "duplicates",
        "releases",
        "first_fact_at_ms",
        "last_fact",
        "last_fact_at_ms",
        "doubt",
    )


def _facts(events: DataFrame) -> DataFrame:
    """What the kernel takes. What only a sender's fact can say is left out of the others, and not sent around."""
    kind = sf.col("kind")
    changes_state = kind.isin(*STATE_AFTER)
    is_sealed = changes_state | (kind == JournalKind.RESEALED)
    came_again = (kind == JournalKind.ARRIVED) & (sf.col("code") == Verdict.DUPLICATE)
    number = sf.when(came_again, ARRIVED_AGAIN).otherwise(number_of(kind, KINDS, otherwise=NOTHING))
    return events.filter(sf.col("message_id").isNotNull() | changes_state).select(
        sf.coalesce("message_id", sf.lit(ZERO_MARK)).alias("message_id"),
        "event_id",
        "writer",
        "at_ms",
        number.cast("tinyint").alias("kind"),
        *(sf.when(changes_state, sf.col(name)).alias(name) for name in ("code", "message_kind", "priority")),
        *(sf.when(is_sealed, sf.col(name)).alias(name) for name in ("payload_hash", "size_bytes", "ttl_s")),
        sf.when(kind == JournalKind.DELIVERY_CONFIRMED, sf.col("node")).alias("node"),
    )


def _live(batches: Iterator[Any]) -> Iterator[Any]:
    came = list(batches)
    if came:
        yield from lives_of(pa.Table.from_batches(came)).to_batches(max_chunksize=ROWS_PER_ARROW_BATCH)


def _doubt() -> Column:
    return (
        sf.when(sf.col("message_id").isNull(), Doubt.NAMELESS)
        .when(sf.col("accepted_at_ms").isNull(), Doubt.NEVER_ACCEPTED)
        .when(sf.col("first_sender") != sf.col("last_sender"), Doubt.SEVERAL_SENDERS)
        .otherwise(word_of("first_doubt", _FACT_DOUBTS))
    )


def _since_acceptance(moment: str, where: Column) -> Column:
    return sf.when(where, sf.col(moment) - sf.col("accepted_at_ms"))
