"""`restante fleet run`: when the stream takes its steps, and how it ends.

A Structured Streaming query watches the directory of segments and calls for each micro-batch of new files. Which files
a step then takes is decided by the stream's own commits (jobs/stream), not by the query's checkpoint: a file source
knows a file by its name only, so it would never look again at one that was half there, and it names no bad ones.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from restante.fleet.jobs.stream import BUCKETS, ROWS_PER_STEP, OnStep, StepDone, Stream
from restante.fleet.jobs.stream_tables import write_tables
from restante.fleet.lake.file_systems import escaped
from restante.fleet.lake.layout import Lake, is_here, spark_path
from restante.fleet.lake.segments import SEGMENT_PATTERN
from restante.fleet.spark.session import open_session
from restante.fleet.stream.bucket_step import Counts
from restante.fleet.stream.commits import forget_everything, only_one
from restante.model.conservation_report import BadSegment
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, RestanteError
from restante.policy.settings import Settings

LOOK_S: Final = 0.2  # how soon a wish to stop is noticed
ANY_AGE: Final = "36500d"  # a file's time says when it was written, which may be long before it came
EVERY_S: Final = 10.0
WRITE_TABLES_EVERY_S: Final = 900.0
_FILES: Final = "path string, modificationTime timestamp, length bigint, content binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """`once`: end when all there is has been taken. `anew`: forget everything and begin with the first segment."""

    once: bool = False
    anew: bool = False
    every_s: float = EVERY_S
    write_tables_every_s: float = WRITE_TABLES_EVERY_S
    buckets: int = BUCKETS
    rows_per_step: int = ROWS_PER_STEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What the stream knows at its end, over all of its runs; `steps` and `rows` are of this run."""

    commit: int
    steps: int
    rows: int
    counts: Counts
    bad_files: tuple[BadSegment, ...]


def run_stream(
    lake: Lake,
    settings: Settings,
    options: RunOptions,
    *,
    master: str = "local[*]",
    stop: threading.Event | None = None,
    on_step: OnStep = lambda _done: None,
    on_ready: Callable[[], None] = lambda: None,
) -> Streamed:
    """Keep the tables of `lake` up to date in a Spark session of its own, until `stop` is set or, once, all is done."""
    _check_place(lake)
    with only_one(lake.local_stream):
        if options.anew:
            forget_everything(lake.local_stream)
        with open_session(app_name="restante fleet run", master=master) as spark:
            on_ready()
            return follow(spark, lake, settings, options, stop=stop or threading.Event(), on_step=on_step)


def follow(
    spark: SparkSession,
    lake: Lake,
    settings: Settings,
    options: RunOptions,
    *,
    stop: threading.Event,
    on_step: OnStep = lambda _done: None,
) -> Streamed:
    """The same in a session that is there already, for a caller that holds the stream's lock."""
    stream = Stream(spark, lake, settings, buckets=options.buckets, rows_per_step=options.rows_per_step)
    run = _Run(spark=spark, lake=lake, stream=stream, options=options, stop=stop, on_step=on_step)
    with tempfile.TemporaryDirectory(prefix="restante-ticks-", ignore_cleanup_errors=True) as scratch:
        query = _watch(spark, lake, options, run, scratch)
        try:
            _await(query, stop)
        except StreamingQueryException:
            if run.problem is not None:
                raise run.problem from None
            raise
        finally:
            if query.isActive:
                spark.sparkContext.cancelAllJobs()  # else the query would wait for the step that is under way
                query.stop()
    return Streamed(
        commit=stream.commit.number,
        steps=run.steps,
        rows=run.rows,
        counts=stream.commit.counts,
        bad_files=tuple(BadSegment(name=one.name, reason=one.reason) for one in stream.commit.odd_files),
    )


@dataclass(slots=True, kw_only=True)
class _Run:
    """What is done for each micro-batch of the query: everything there is, step by step."""

    spark: SparkSession
    lake: Lake
    stream: Stream
    options: RunOptions
    stop: threading.Event
    on_step: OnStep
    written_at_s: float | None = None
    steps: int = 0
    rows: int = 0
    problem: BaseException | None = None

    def __call__(self, _rows: Any, _number: int) -> None:
        try:
            self._catch_up()
        except BaseException as problem:
            self.problem = problem  # the query would only keep its text
            raise

    def _catch_up(self) -> None:
        while not self.stop.is_set():
            done = self.stream.step()
            if done is None:
                break
            self._count(done)
        if self._is_time_to_write():
            write_tables(self.spark, self.lake, self.stream.commit)
            self.stream.note_written()
            self.written_at_s = time.monotonic()

    def _count(self, done: StepDone) -> None:
        self.steps += 1
        self.rows += done.rows
        self.on_step(done)

    def _is_time_to_write(self) -> bool:
        """Once: at the end. Else from time to time, and first of all when all there was has been taken."""
        if self.stop.is_set() or not self.stream.commit.has_unwritten:
            return False
        if self.options.once or self.written_at_s is None:
            return True
        return time.monotonic() - self.written_at_s >= self.options.write_tables_every_s


def _watch(spark: SparkSession, lake: Lake, options: RunOptions, run: _Run, scratch: str) -> StreamingQuery:
    """Names of files only: a file's content is never read by the query."""
    source = spark.readStream.format("binaryFile").schema(_FILES).option("pathGlobFilter", SEGMENT_PATTERN)
    names = source.option("maxFileAge", ANY_AGE).load(escaped(spark_path(lake.segments))).select("path")
    writer = names.writeStream.foreachBatch(run).option("checkpointLocation", scratch)
    if options.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{options.every_s} seconds").start()


def _await(query: StreamingQuery, stop: threading.Event) -> None:
    """Until the query ends by itself, or its step under way is done after somebody wished to stop."""
    while query.isActive and not stop.wait(LOOK_S):
        pass
    while query.isActive and query.status["isTriggerActive"]:
        time.sleep(LOOK_S)
    problem = query.exception()
    if problem is not None:
        raise problem


def _check_place(lake: Lake) -> None:
    if not lake.has_stream:
        raise ConfigurationInvalid(
            f"{lake.root} is not on this machine: name a directory for the stream's own files, with --state"
        )
    if is_here(lake.root) and not lake.local_segments.is_dir():
        raise RestanteError(
            f"{lake.local_segments} is not a directory; journals are shipped to 'segments' in a lake",
            code=Code.NOT_FOUND,
        )
