"""One row for each thing that happened to an incoming session: verdict, place in order and gaps (SPEC 13.3).

Which events of a recipient tell of its sessions is decided here; what follows from them in kernels/arrivals. The
recipient's own verdict goes in only where the journal cannot know better (docs/decisions/0019), and comes out beside
ours as `recipient_verdict`.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from restante.fleet.kernels.arrivals import classify_arrivals
from restante.fleet.kernels.arrivals_schema import (
    ARRIVED,
    CONTROL_ARRIVED,
    EMPTY_STATE,
    MARK_BYTES,
    NO_SEQUENCE,
    SESSION_EVENTS,
    ZERO_MARK,
)
from restante.fleet.kernels.arrivals_words import (
    ARRIVALS,
    EVENT_OF_KIND,
    RECORDED,
    UNUSABLE,
    decode_arrivals,
)
from restante.fleet.spark.enum_columns import encode_enum
from restante.fleet.spark.map_in_arrow import ROWS_PER_ARROW_BATCH, BatchFunction
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE
from restante.fleet.transforms.validate import RowVerdict
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
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
    found = telling.filter(event.isNotNull() & ~_is_unusable(event.isin(ARRIVED, CONTROL_ARRIVED))).select(
        "event_id",
        "at_ms",
        sf.coalesce("sequence", sf.lit(NO_SEQUENCE).cast("long")).alias("sequence"),
        sf.coalesce("message_id", sf.lit(ZERO_MARK)).alias("message_id"),
        sf.coalesce(sf.substring("payload_hash", 1, MARK_BYTES), sf.lit(ZERO_MARK)).alias("payload"),
        "session_tag",
        event,
        encode_enum(sf.col("code"), RECORDED, otherwise=len(RECORDED)).cast("tinyint").alias("recorded"),
    )
    return found.filter(sf.length("session_tag") == MARK_BYTES).select(*SESSION_EVENTS.names)


def _kernel_event() -> Column:
    kind = sf.col("kind")
    is_control = (kind == JournalKind.ARRIVED) & (sf.col("message_kind") == Kind.CONTROL)
    found = sf.when(is_control, CONTROL_ARRIVED)
    for journaled, event in EVENT_OF_KIND.items():
        found = found.when(kind == journaled, event)
    return found.cast("tinyint")


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
