"""One row a message: its life and where it stands, told from the facts about it (SPEC 13.3).

Which fact leads to which state is the table in model/journal. Here is decided only when the facts of a message cannot
all be true; such a message has a `doubt` and is not accounted for.
"""

from enum import StrEnum

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

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


def messages(events: DataFrame) -> DataFrame:
    """The messages that `events` tell of. Among a writer's facts their number decides what came last, not a clock."""
    state_after = sf.create_map(*(sf.lit(word) for pair in STATE_AFTER.items() for word in pair))
    earlier = Window.partitionBy("message_id").orderBy("event_id").rowsBetween(Window.unboundedPreceding, -1)
    facts = (
        events.withColumn("state_after", sf.try_element_at(state_after, sf.col("kind")))
        .filter(sf.col("message_id").isNotNull() | sf.col("state_after").isNotNull())
        .withColumn("state_before", sf.last("state_after", ignorenulls=True).over(earlier))
        .withColumn("doubt", _doubt_of_a_fact())
    )
    return (
        facts.groupBy("message_id")
        .agg(*_summary())
        .select("*", "last_change.*")
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
            "last_fact.last_fact",
            "last_fact.last_fact_at_ms",
            _doubt_of_a_message().alias("doubt"),
        )
    )


def _doubt_of_a_fact() -> Column:
    kind, before = sf.col("kind"), sf.col("state_before")
    changes_state = sf.col("state_after").isNotNull()
    return (
        sf.when((kind == JournalKind.ACCEPTED) & before.isNotNull(), Doubt.ACCEPTED_LATE)
        .when((kind == JournalKind.RECOVERED) & (before != State.DEAD), Doubt.RECOVERED_ALIVE)
        .when(changes_state & (kind != JournalKind.RECOVERED) & before.isin(*ENDED), Doubt.MOVED_AFTER_END)
    )


def _doubt_of_a_message() -> Column:
    return (
        sf.when(sf.col("message_id").isNull(), Doubt.NAMELESS)
        .when(sf.col("accepted_at_ms").isNull(), Doubt.NEVER_ACCEPTED)
        .when(sf.col("first_sender") != sf.col("last_sender"), Doubt.SEVERAL_SENDERS)
        .otherwise(sf.col("first_doubt"))
    )


def _summary() -> list[Column]:
    """The facts of one message in one row. An event_id orders a writer's facts: its last 8 bytes are their number."""
    changes_state = sf.col("state_after").isNotNull()
    return [
        _first("message_kind", changes_state & sf.col("message_kind").isNotNull()).alias("message_kind"),
        _first("priority", changes_state & sf.col("priority").isNotNull()).alias("priority"),
        *(
            # What is sent now: what a message was sealed anew as, or else what was accepted.
            sf.coalesce(
                _last(name, (sf.col("kind") == JournalKind.RESEALED) & sf.col(name).isNotNull()),
                _first(name, changes_state & sf.col(name).isNotNull()),
            ).alias(name)
            for name in ("payload_hash", "size_bytes", "ttl_s")
        ),
        _first("at_ms", sf.col("kind") == JournalKind.ACCEPTED).alias("accepted_at_ms"),
        sf.max_by(
            sf.struct(
                sf.col("state_after").alias("state"),
                sf.col("code").alias("last_code"),
                sf.col("at_ms").alias("state_at_ms"),
            ),
            sf.when(changes_state, sf.col("event_id")),
        ).alias("last_change"),
        sf.count_if(sf.col("kind") == JournalKind.ATTEMPTED).alias("attempts"),
        _last("at_ms", sf.col("kind") == JournalKind.ATTEMPTED).alias("last_attempt_at_ms"),
        _first("at_ms", sf.col("kind") == JournalKind.SENT).alias("sent_at_ms"),
        _first("at_ms", sf.col("kind") == JournalKind.READ).alias("read_at_ms"),
        sf.count_if(sf.col("kind") == JournalKind.ARRIVED).alias("arrivals"),
        sf.count_if((sf.col("kind") == JournalKind.ARRIVED) & (sf.col("code") == Verdict.DUPLICATE)).alias(
            "duplicates"
        ),
        sf.count_if(sf.col("kind") == JournalKind.RELEASED).alias("releases"),
        sf.min(sf.when(sf.col("kind") == JournalKind.RELEASED, sf.col("at_ms"))).alias("released_at_ms"),
        sf.min("at_ms").alias("first_fact_at_ms"),
        # Facts of several writers have no common number: here, and only here, their clocks must do.
        sf.max_by(
            sf.struct(sf.col("kind").alias("last_fact"), sf.col("at_ms").alias("last_fact_at_ms")),
            sf.struct("at_ms", "event_id"),
        ).alias("last_fact"),
        sf.min(sf.when(changes_state, sf.col("writer"))).alias("first_sender"),
        sf.max(sf.when(changes_state, sf.col("writer"))).alias("last_sender"),
        _first("doubt", sf.col("doubt").isNotNull()).alias("first_doubt"),
    ]


def _first(column: str, where: Column) -> Column:
    return sf.min_by(sf.col(column), sf.when(where, sf.col("event_id")))


def _last(column: str, where: Column) -> Column:
    return sf.max_by(sf.col(column), sf.when(where, sf.col("event_id")))


def _since_acceptance(moment: str, where: Column) -> Column:
    return sf.when(where, sf.col(moment) - sf.col("accepted_at_ms"))
