"""Per writer and hour: number of events, range of event numbers, latest time, bytes stored, which node it is.

One pass over all events (kernels/event_hours) with a small result, for the tables about writers: missing events, nodes.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from restante.fleet.kernels.event_hours import COLUMNS, HOURS, hours_of

HOURS_PER_DAY: Final = 24


def writer_hours(events: DataFrame) -> DataFrame:
    """One row for each writer and hour of its events.

    `highest` and `lowest` are of the events' numbers, and below zero from 2**63 on; `events` are those with any number
    but zero. `node` is which node the writer is, by its last start in the hour.
    """
    return merged_hours(events.select(*COLUMNS).mapInArrow(_count, from_arrow_schema(HOURS)))


def merged_hours(hours: DataFrame) -> DataFrame:
    """Rows of several sets of events, of which no two have an event in common, as one table."""
    return _columns(
        hours.groupBy("writer", "hour").agg(
            sf.sum("events").alias("events"),
            sf.max("highest").alias("highest"),
            sf.min("lowest").alias("lowest"),
            sf.max("last_event_at_ms").alias("last_event_at_ms"),
            sf.sum("stored_bytes").alias("stored_bytes"),
            sf.max_by("node", "started_event").alias("node"),
            sf.max("started_event").alias("started_event"),
        )
    )


def _columns(hours: DataFrame) -> DataFrame:
    return hours.select(
        "writer",
        "hour",
        "events",
        "highest",
        "lowest",
        "last_event_at_ms",
        "stored_bytes",
        "node",
        "started_event",
        sf.date_from_unix_date(sf.floor(sf.col("hour") / HOURS_PER_DAY).cast("int")).alias("day"),
    )


def _count(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield from hours_of(pa.Table.from_batches([batch])).to_batches()
