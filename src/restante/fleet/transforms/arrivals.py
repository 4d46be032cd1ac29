"""One row for each thing that happened to an incoming session: verdict, place in order, gaps and resets (SPEC 13.3).

Which events of a recipient tell of its sessions is decided here; what follows from them in kernels/arrivals. The
recipient's own verdict goes in only where the journal cannot know better (docs/decisions/0019), and comes out beside
ours as `recipient_verdict`.
"""

from collections.abc import Iterator
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from restante.core.inbox_events import ResetReason
from restante.fleet.kernels.arrivals import classify_arrivals
from restante.fleet.kernels.arrivals_schema import (
    ARRIVED,
    EMPTY_STATE,
    MARK_BYTES,
    NO_SEQUENCE,
    SESSION_ENDED,
    SESSION_EVENTS,
    SESSION_FAILED,
    ZERO_MARK,
)
from restante.fleet.kernels.arrivals_words import (
    ARRIVALS,
    DERIVED_RESET,
    EVENT_OF_KIND,
    RECORDED,
    RESETS,
    UNUSABLE,
    decode_arrivals,
)
from restante.fleet.spark.enum_columns import encode_enum
from restante.fleet.spark.map_in_arrow import ROWS_PER_ARROW_BATCH, BatchFunction
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE
from restante.fleet.transforms.validate import RowVerdict
from restante.model.journal import JournalKind
from restante.policy.dedup import DedupLimits
from restante.policy.reorder_limits import OrderLimits

_TABLE: Final = from_arrow_schema(ARRIVALS)


def arrivals(events: DataFrame, *, partitions: int, order: OrderLimits, dedup: DedupLimits) -> DataFrame:
    """The table of arrivals from the whole of `events`, in `partitions` tasks."""
    rows = session_events(events).repartition(partitions, "session_tag")
    return rows.mapInArrow(_classify_partition(order, dedup), _TABLE)


def session_events(events: DataFrame) -> DataFrame:
    """The events that tell of incoming sessions, as the kernel takes them.

    Its kind is a row's longest word: it is compared once, and what depends on it looks at the number made of it.
    """
    event = sf.col("event")
    telling = events.filter(sf.col("kind").isin(*EVENT_OF_KIND)).withColumn("event", _kernel_event())
    found = telling.filter(event.isNotNull() & ~_is_unusable(event == ARRIVED)).select(
        "event_id",
        "at_ms",
        sf.coalesce("sequence", sf.lit(NO_SEQUENCE).cast("long")).alias("sequence"),
        sf.coalesce("message_id", sf.lit(ZERO_MARK)).alias("message_id"),
        sf.coalesce(sf.substring("payload_hash", 1, MARK_BYTES), sf.lit(ZERO_MARK)).alias("payload"),
        _told_tag(event).alias("session_tag"),
        event,
        _kernel_verdict(event).alias("recorded"),
    )
    return found.filter(sf.length("session_tag") == MARK_BYTES).select(*SESSION_EVENTS.names)


def _told_tag(event: Column) -> Column:
    # The event carries the tag of the new session; the one that ended is in `previous_session_tag`.
    return sf.when(event == SESSION_ENDED, sf.col("previous_session_tag")).otherwise(sf.col("session_tag"))


def _kernel_event() -> Column:
    kind, is_not_ours = sf.col("kind"), sf.col("code") != DERIVED_RESET
    cases = [
        ((kind == journaled) & is_not_ours if journaled is JournalKind.SESSION_RESET else kind == journaled, event)
        for journaled, event in EVENT_OF_KIND.items()
    ]
    return reduce(lambda found, one: found.when(*one), cases[1:], sf.when(*cases[0])).cast("tinyint")


def _kernel_verdict(event: Column) -> Column:
    code = sf.col("code")
    reason = encode_enum(code, RESETS, otherwise=ResetReason.UNREADABLE - 1) + 1
    verdict = encode_enum(code, RECORDED, otherwise=len(RECORDED))
    return sf.when(event == SESSION_FAILED, reason).otherwise(verdict).cast("tinyint")


def unusable_arrivals(validated: DataFrame) -> DataFrame:
    """Return the validated arrivals that lack a session or a message, with file and reason."""
    is_event = sf.col("verdict") == RowVerdict.EVENT
    return validated.filter(is_event & _is_unusable(sf.col("kind") == JournalKind.ARRIVED)).select(
        *JOURNAL_COLUMNS, SOURCE_FILE, sf.lit(UNUSABLE).alias("reason")
    )


def _classify_partition(order: OrderLimits, dedup: DedupLimits) -> BatchFunction:
    def classify(batches: Iterator[Any]) -> Iterator[Any]:
        came = list(batches)
        if not came:
            return
        rows = pa.Table.from_batches(came).select(SESSION_EVENTS.names)
        done = classify_arrivals(rows, EMPTY_STATE, order=order, dedup=dedup)
        yield from decode_arrivals(done.classified).to_batches(max_chunksize=ROWS_PER_ARROW_BATCH)

    return classify


def _is_unusable(is_arrived: Column) -> Column:
    is_short = sf.col("session_tag").isNull() | sf.col("message_id").isNull() | sf.col("payload_hash").isNull()
    return is_arrived & is_short
