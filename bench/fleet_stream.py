"""The stream against a backfill of the same segments, and against `transformWithState` keyed by session.

`python -m bench.fleet_stream [--rows N] [--peer-rows N]`. The stream reads, validates, judges and commits events,
quarantine and arrivals, as the backfill does; both start with nothing, on two cores, when Java is warm. The peer only
judges: its segments are read by Spark's file source, its state is Spark's (RocksDB), and for each session it calls the
machine of the core, one fact at a time. It gets fewer rows, for it would never end.
"""

import argparse
import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark.sql.pandas.functions as pandas_functions
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.measure import Measured, judge, take_turns, warn_if_restless
from restante.fleet.jobs.backfill import backfill
from restante.fleet.jobs.generate import generate
from restante.fleet.jobs.stream import Stream
from restante.fleet.kernels.exact import ExactSession, Fact
from restante.fleet.lake import Lake, spark_path
from restante.fleet.schemas import JOURNAL
from restante.fleet.segments import find_segments
from restante.fleet.session import open_session
from restante.fleet.transforms.arrivals import arrival_facts
from restante.fleet.transforms.synthetic import Scenario
from restante.policy.settings import Settings

CORES = 2
ROWS_PER_SESSION = 100
SETTINGS = Settings()
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
JUDGED = "event_id binary, verdict int, placement int, expected bigint, released bigint"
RESTLESS = 1.5


class OneSession(StatefulProcessor):
    """A session's state as Spark keeps it: one value, written whole."""

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
        session = ExactSession(known, writer=0, order=SETTINGS.order, dedup=SETTINGS.dedup)
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
def no_pandas_asked_for() -> Iterator[None]:
    """PySpark asks for pandas before it takes rows that need none (see fleet/arrow_map)."""
    functions: Any = pandas_functions
    asked = functions.require_minimum_pandas_version
    functions.require_minimum_pandas_version = lambda: None
    try:
        yield
    finally:
        functions.require_minimum_pandas_version = asked


def by_state(spark: SparkSession, lake: Lake, home: Path) -> None:
    """All segments in one micro-batch."""
    shutil.rmtree(home, ignore_errors=True)
    facts = arrival_facts(spark.readStream.schema(JOURNAL).parquet(spark_path(lake.segments)))
    with no_pandas_asked_for():
        judged = facts.groupBy("session_tag").transformWithState(OneSession(), JUDGED, "Append", "None")
    query = (
        judged.writeStream.format("parquet")
        .option("path", str(home / "table"))
        .option("checkpointLocation", str(home / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def by_stream(spark: SparkSession, lake: Lake) -> None:
    shutil.rmtree(lake.local_stream, ignore_errors=True)
    stream = Stream(spark, lake, SETTINGS)
    while stream.step() is not None:
        pass


def by_backfill(spark: SparkSession, lake: Lake, out: Lake) -> None:
    shutil.rmtree(out.root, ignore_errors=True)
    backfill(spark, out, SETTINGS, *find_segments(lake.local_segments))


def make(spark: SparkSession, lake: Lake, rows: int) -> int:
    messages = round(rows / 1.01)
    scenario = Scenario(messages=messages, sessions=max(1, messages // ROWS_PER_SESSION))
    generate(spark, lake, scenario, only_arrivals=True)
    return sum(segment.rows for segment in find_segments(lake.local_segments)[0])


def counted(work: Callable[[], None], rows: int) -> Callable[[], int]:
    def run() -> int:
        work()
        return rows

    return run


def measure(spark: SparkSession, home: Path, rows: int, rounds: int) -> dict[str, Measured]:
    """Rows a second of the stream and of a backfill; for any caller that has a session."""
    lake, out = Lake(str(home / "lake")), Lake(str(home / "backfill"))
    exactly = make(spark, lake, rows)
    contenders = {
        "stream": counted(lambda: by_stream(spark, lake), exactly),
        "backfill": counted(lambda: by_backfill(spark, lake, out), exactly),
    }
    for work in contenders.values():
        work()  # Java is slow until it is warm
    return take_turns(contenders, rounds=rounds)


def measure_peer(spark: SparkSession, home: Path, rows: int) -> Measured:
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    lake = Lake(str(home / "peer"))
    exactly = make(spark, lake, rows)
    found = take_turns(
        {"transformWithState": counted(lambda: by_state(spark, lake, home / "state"), exactly)}, rounds=2
    )
    table = spark.read.parquet(str(home / "state" / "table"))
    assert table.count() == exactly
    return found["transformWithState"]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The fleet's stream against a backfill and Spark's own state.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--peer-rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="restante-bench-") as made,
        open_session(app_name="restante bench", master=f"local[{CORES}]") as spark,
    ):
        start = time.perf_counter()
        found = measure(spark, Path(made), given.rows, given.rounds)
        judge(found["stream"], found["backfill"], bar=0.3)
        judge(found["stream"], measure_peer(spark, Path(made), given.peer_rows), bar=30)
        warn_if_restless(found, limit=RESTLESS)
        print(f"  load {os.getloadavg()[0]:.1f}, {time.perf_counter() - start:,.0f} s")


if __name__ == "__main__":
    main()
