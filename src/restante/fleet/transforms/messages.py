"""One row per message: its history and final state, from the events about it (SPEC 13.3).

The table in model/journal maps events to states. This module decides only when the events of a message contradict each
other; such a message has an `inconsistency` and is unaccounted for.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from restante.fleet.kernels.message_events import COLUMNS, message_events, of_parts
from restante.fleet.kernels.message_lifecycles import LIVES, lives_of
from restante.fleet.spark.enum_columns import decode_enum
from restante.fleet.spark.map_in_arrow import ROWS_PER_ARROW_BATCH
from restante.model.conservation_report import Inconsistency
from restante.model.journal import STATE_AFTER
from restante.model.states import ENDED, State

DAY_MS: Final = 86_400_000
_EVENT_INCONSISTENCIES: Final = (
    Inconsistency.ACCEPTED_AGAIN,
    Inconsistency.RECOVERED_IN_FLIGHT,
    Inconsistency.CHANGED_AFTER_END,
)
"""In the order of their numbers in the kernel."""


def message_lifecycles(events: DataFrame, *, partitions: int | None = None) -> DataFrame:
    """All that one look at the events of each message tells: what `messages` has, and what other tables are made of.

    In `partitions` tasks, or as many as the session has for any shuffle. Among a writer's events their number decides
    what came last, not a clock.
    """
    rows = events.filter(concerns_message()).select(*COLUMNS)
    by_message = rows.repartition("message_id") if partitions is None else rows.repartition(partitions, "message_id")
    return _lifecycles(by_message.mapInArrow(_lives_of_rows, LIVES))


def lifecycles_of_parts(parts: DataFrame, tasks: int) -> DataFrame:
    """The same, of events that are divided among so many tasks already (kernels/message_events)."""
    return _lifecycles(parts.repartitionById(tasks, "place").mapInArrow(_lives_of_parts, LIVES))


def _lifecycles(lives: DataFrame) -> DataFrame:
    return lives.select(
        "message_id",
        sf.col("first_sender").alias("sender"),
        "recipient",
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
        "first_event_at_ms",
        "last_event",
        "last_event_at_ms",
        _inconsistency().alias("inconsistency"),
        "other_hashes",
        "confirmed",
        "last_change_number",
        utc_day(sf.coalesce("accepted_at_ms", "first_event_at_ms")).alias("day"),
    )


def messages(lifecycles: DataFrame) -> DataFrame:
    """The columns of the table `messages`, in their order."""
    return lifecycles.select(
        "message_id",
        "sender",
        "recipient",
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
        "first_event_at_ms",
        "last_event",
        "last_event_at_ms",
        "inconsistency",
        "other_hashes",
        "confirmed",
        "last_change_number",
        "day",
    )


def concerns_message() -> Column:
    """Whether an event is about a message, or says that it is about one without naming it."""
    return sf.col("message_id").isNotNull() | sf.col("kind").isin(*STATE_AFTER)


def utc_day(at_ms: Column) -> Column:
    """The day of a time, independent of the session's time zone."""
    return sf.date_from_unix_date(sf.floor(at_ms / DAY_MS).cast("int"))


def _lives_of_rows(batches: Iterator[Any]) -> Iterator[Any]:
    came = list(batches)
    return _lives(pa.Table.from_batches(came)) if came else iter(())


def _lives_of_parts(batches: Iterator[Any]) -> Iterator[Any]:
    return _lives(of_parts(batches))


def _lives(events: Any) -> Iterator[Any]:
    if len(events):
        yield from lives_of(message_events(events)).to_batches(max_chunksize=ROWS_PER_ARROW_BATCH)


def _inconsistency() -> Column:
    return (
        sf.when(sf.col("message_id").isNull(), Inconsistency.MISSING_MESSAGE_ID)
        .when(sf.col("accepted_at_ms").isNull(), Inconsistency.NEVER_ACCEPTED)
        .when(sf.col("first_sender") != sf.col("last_sender"), Inconsistency.MULTIPLE_SENDERS)
        .otherwise(decode_enum("first_inconsistency", _EVENT_INCONSISTENCIES))
    )


def _since_acceptance(moment: str, where: Column) -> Column:
    return sf.when(where, sf.col(moment) - sf.col("accepted_at_ms"))
