"""Dead letters with their category and deadlines (SPEC 5.3, 13.3), computed from the events alone.

The rules are those of policy/dead_letters and policy/failures, here as columns; a parity test holds them equal to what
core/outbox does. A recovery that a person asked for begins a new life; a daily retry only goes on with the old one.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from restante.model.journal import AUTOMATIC_RETRY, STATE_AFTER, JournalKind
from restante.model.kinds import KIND_RULES, TtlType
from restante.model.states import DeadCategory, DeadReason
from restante.policy.completion import STORED_TTL_MS
from restante.policy.dead_letters import DeadLetterRetention, category_of
from restante.policy.failures import FAILURE_RULES, Backoff

SECOND_MS: Final = 1_000
PREFIX_BYTES: Final = 2  # of a random id: 65,536 beginnings at most
PERMANENT_CODES: Final = tuple(sorted({rule.code for rule in FAILURE_RULES.values() if rule.backoff is Backoff.NEVER}))
RETRIED_ONCE_CODES: Final = tuple(sorted({rule.code for rule in FAILURE_RULES.values() if rule.retries_once}))
GRAVES: Final = (JournalKind.DEAD_LETTERED, JournalKind.EXPIRED)
RELATIVE_KINDS: Final = tuple(kind for kind, rule in KIND_RULES.items() if rule.ttl_type is TtlType.RELATIVE)


def dead_letters(events: DataFrame, retention: DeadLetterRetention) -> DataFrame:
    """One row for every message that lies, or lay until it was discarded, among the dead letters or tombstones."""
    in_order = Window.partitionBy("message_id").orderBy("event_id")
    whole_life = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # Most messages never became dead letters, and need neither a shuffle nor a sort. A broadcast of the first bytes of
    # the dead ones' ids, which is small, filters them out first.
    graves = events.filter(sf.col("kind").isin(*GRAVES))
    buried = graves.select("message_id").distinct()
    beginning = sf.substring("message_id", 1, PREFIX_BYTES).alias("beginning")
    beginnings = graves.select(beginning).distinct()
    last_lives = (
        events.filter(sf.col("message_id").isNotNull() & sf.col("kind").isin(*STATE_AFTER, JournalKind.DISCARDED))
        .withColumn("beginning", beginning)
        .join(sf.broadcast(beginnings), on="beginning", how="left_semi")
        .join(buried, on="message_id", how="left_semi")
        .withColumn("life", sf.count_if(_begins_a_life()).over(in_order))
        .withColumn("is_in_last_life", sf.col("life") == sf.max("life").over(whole_life))
        .groupBy("message_id")
        .agg(*_summary())
        .filter(sf.col("state_event").isin(*GRAVES))
        .withColumn("category", _category())
    )
    return (
        last_lives.withColumn("expires_at_ms", _expires_at_ms(retention))
        .withColumn("due_ms", sf.col("moved_at_ms") + retention.auto_retry_interval_ms)
        .select(
            "message_id",
            "sender",
            "category",
            "code",
            "attempts",
            "moved_at_ms",
            "first_dead_at_ms",
            "expires_at_ms",
            "message_expires_at_ms",
            sf.when(_is_retried(), sf.col("due_ms")).alias("next_retry_at_ms"),
            "discarded_at_ms",
        )
    )


def _begins_a_life() -> Column:
    was_asked_for = sf.coalesce(sf.col("code"), sf.lit("")) != AUTOMATIC_RETRY
    return (sf.col("kind") == JournalKind.ACCEPTED) | ((sf.col("kind") == JournalKind.RECOVERED) & was_asked_for)


def _summary() -> list[Column]:
    kind, number = sf.col("kind"), sf.col("event_id")
    changes_state = kind != JournalKind.DISCARDED
    this_life = sf.col("is_in_last_life")
    is_grave = kind.isin(*GRAVES)
    sealed_again = (kind == JournalKind.RETRIED) & sf.col("code").isin(*RETRIED_ONCE_CODES)
    queued = kind.isin(JournalKind.ACCEPTED, JournalKind.RECOVERED)
    return [
        sf.min_by("writer", sf.when(changes_state, number)).alias("sender"),
        sf.max_by("kind", sf.when(changes_state, number)).alias("state_event"),
        sf.max_by("code", sf.when(is_grave, number)).alias("code"),
        sf.max_by("attempt", sf.when(is_grave, number)).alias("attempts"),
        sf.max_by("at_ms", sf.when(is_grave, number)).alias("moved_at_ms"),
        sf.min_by("at_ms", sf.when(this_life & is_grave, number)).alias("first_dead_at_ms"),
        sf.coalesce(
            sf.max(sf.when(sealed_again, number)) > sf.max(sf.when(queued, number)),
            sf.lit(False),
        ).alias("was_sealed_again"),
        _message_expires_at_ms().alias("message_expires_at_ms"),
        sf.max_by(
            sf.when(kind == JournalKind.DISCARDED, sf.col("at_ms")),
            sf.when(kind.isin(JournalKind.DISCARDED, JournalKind.RECOVERED, *GRAVES), number),
        ).alias("discarded_at_ms"),
    ]


def _message_expires_at_ms() -> Column:
    """The beginning of the last life and the TTL the message was accepted with; null where no event says that."""
    kind, number = sf.col("kind"), sf.col("event_id")
    began_at_ms = sf.min_by("at_ms", sf.when(sf.col("is_in_last_life"), number))
    ttl_s = sf.min_by("ttl_s", sf.when(kind == JournalKind.ACCEPTED, number))
    message_kind = sf.min_by("message_kind", sf.when(kind == JournalKind.ACCEPTED, number))
    life_ms = sf.when(message_kind.isin(*RELATIVE_KINDS), sf.lit(STORED_TTL_MS)).otherwise(ttl_s * SECOND_MS)
    return began_at_ms + sf.when(ttl_s.isNotNull(), life_ms)


def _category() -> Column:
    """An event says either why a letter was given up or the code of the failure that ended it, never both."""
    code = sf.col("code")
    is_sealed_in_vain = code.isin(*RETRIED_ONCE_CODES) & sf.col("was_sealed_again")
    told = reduce(
        lambda found, reason: found.when(code == reason, category_of(reason)),
        DeadReason,
        sf.when(sf.col("state_event") == JournalKind.EXPIRED, DeadCategory.EXPIRED),
    )
    return told.when(code.isin(*PERMANENT_CODES) | is_sealed_in_vain, DeadCategory.PERMANENT).otherwise(
        DeadCategory.RETRIABLE
    )


def _expires_at_ms(retention: DeadLetterRetention) -> Column:
    """Daily retries do not prolong how long a letter is kept; a tombstone's day begins with it."""
    category = sf.col("category")
    return (
        sf.when(category == DeadCategory.EXPIRED, sf.col("moved_at_ms") + retention.tombstone_retention_ms)
        .when(category == DeadCategory.PERMANENT, sf.col("first_dead_at_ms") + retention.permanent_retention_ms)
        .otherwise(sf.col("message_expires_at_ms"))
    )


def _is_retried() -> Column:
    ends_at_ms = sf.least("expires_at_ms", "message_expires_at_ms")  # a null is passed over
    is_kept = sf.col("discarded_at_ms").isNull()
    return is_kept & (sf.col("category") == DeadCategory.RETRIABLE) & (sf.col("due_ms") < ends_at_ms)
