"""The stream, and `transformWithState` keyed by session, for `bench/fleet.py`.

The stream reads, validates, judges and commits events, quarantine and arrivals, and starts with nothing. The peer only
judges: its segments are read by Spark's file source, its state is Spark's (RocksDB), and for each session it calls the
machine of the core, one fact at a time.
"""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark.sql.pandas.functions as pandas_functions
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from restante.fleet.jobs.stream import Stream
from restante.fleet.kernels.exact import ExactSession, Fact
from restante.fleet.lake import Lake, spark_path
from restante.fleet.schemas import JOURNAL
from restante.fleet.transforms.arrivals import arrival_facts
from restante.policy.settings import Settings

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
JUDGED = "event_id binary, verdict int, placement int, expected bigint, released bigint"


class OneSession(StatefulProcessor):
    """A session's state as Spark keeps it: one value, written whole."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("session", "raw binary")

    def handleInputRows(  # noqa: N802 - Spark's names and arguments
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        value = self._state.get() if self._state.exists() else None
        known = () if value is None else pickle.loads(value[0])  # noqa: S301 - our own bytes
        session = ExactSession(known, writer=0, order=self._settings.order, dedup=self._settings.dedup)
        for row in sorted(rows, key=lambda one: bytes(one.event_id)):
            told = session.take(
                Fact(row.event, row.at_ms, row.sequence, bytes(row.message_id), bytes(row.payload), row.recorded)
            )
            yield Row(
                event_id=row.event_id,
                verdict=told.verdict,
                placement=told.placement,
                expected=told.expected,
                released=told.released,
            )
        self._state.update((pickle.dumps(list(session.rows())),))

    def close(self) -> None:
        pass


@contextmanager
def with_rocks(spark: SparkSession) -> Iterator[None]:
    """Spark keeps its state in RocksDB; and PySpark does not ask for pandas, which it needs for other rows only (see
    fleet/arrow_map)."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    functions: Any = pandas_functions
    asked = functions.require_minimum_pandas_version
    functions.require_minimum_pandas_version = lambda: None
    try:
        yield
    finally:
        functions.require_minimum_pandas_version = asked


def by_state(spark: SparkSession, lake: Lake, home: Path, settings: Settings) -> None:
    """All segments in one micro-batch."""
    facts = arrival_facts(spark.readStream.schema(JOURNAL).parquet(spark_path(lake.segments)))
    judged = facts.groupBy("session_tag").transformWithState(OneSession(settings), JUDGED, "Append", "None")
    query = (
        judged.writeStream.format("parquet")
        .option("path", str(home / "table"))
        .option("checkpointLocation", str(home / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def by_stream(spark: SparkSession, lake: Lake, state: Path, settings: Settings) -> None:
    """All segments, step by step, with the stream's files in `state`."""
    stream = Stream(spark, Lake(lake.root, state), settings)
    while stream.step() is not None:
        pass
