"""The stream of a lake as one Structured Streaming query (SPEC 13.2): start it, follow it, stop it.

Spark keeps offsets, batches, triggers and progress; the source (stream/source) plans batches and jobs/micro_batch runs
them. The checkpoint may be lost or old: the lake itself says which batches are done.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from restante.fleet.jobs.changes import MOST_ROWS, last_published
from restante.fleet.jobs.micro_batch import BUCKETS, MicroBatches, OnBatch
from restante.fleet.jobs.publication import keep_tables, publish_beside_others
from restante.fleet.jobs.publish import publish
from restante.fleet.jobs.retention import only_retained_since
from restante.fleet.lake.layout import STREAM, Lake, check_writable, is_here, spark_path
from restante.fleet.lake.new_files import delete_tree
from restante.fleet.lake.reading import segments_read
from restante.fleet.spark.errors import OWN_ERROR
from restante.fleet.spark.java_exit_files import forget_exit_files
from restante.fleet.spark.session import open_session
from restante.fleet.stream.batches import check_can_begin
from restante.fleet.stream.bucket_step import Counts
from restante.fleet.stream.source import BYTES_PER_BATCH, FILES_PER_BATCH, FORMAT, SegmentSource
from restante.model.conservation_report import BadSegment
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, RestanteError, StoreUnusable
from restante.model.provenance import provenance_of
from restante.policy.settings import Settings

QUERY_NAME: Final = "restante fleet stream"
OnPublish = Callable[[int, float], None]
"""Gets the batch that all tables now have, and how many seconds their update took."""
STOP_POLL_S: Final = 0.2
POLL_INTERVAL_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """`once`: end when all segments that are there have been read. `reset`: delete tables and state first."""

    once: bool = False
    reset: bool = False
    poll_interval_s: float = POLL_INTERVAL_S
    buckets: int = BUCKETS
    files_per_batch: int = FILES_PER_BATCH
    bytes_per_batch: int = BYTES_PER_BATCH
    checkpoint: str | None = None
    is_published: bool = True
    """Whether the derived tables are updated: after each batch or, with `once`, at the end."""
    operator_key: bytes | None = None
    """Public key of the operator. Without it no signature is checked, and no action follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """The stream at its end. `batches` and `rows` are of this run, `counts` since the first batch."""

    n: int
    batches: int
    rows: int
    counts: Counts
    bad_files: tuple[BadSegment, ...]


def run_stream(
    lake: Lake,
    settings: Settings,
    options: StreamOptions,
    *,
    master: str = "local[*]",
    stop: threading.Event | None = None,
    on_batch: OnBatch = lambda _done: None,
    on_publish: OnPublish = lambda _n, _took_s: None,
    on_ready: Callable[[str | None], None] = lambda _ui: None,
) -> Streamed:
    """Keep the tables of `lake` up to date in a new Spark session until `stop` is set or, once, all is read."""
    _check_lake(lake, options)
    check_writable(lake)
    with open_session(app_name=QUERY_NAME, master=master, has_ui=True) as spark:
        on_ready(spark.sparkContext.uiWebUrl)
        running = start_stream(spark, lake, settings, options, on_batch=on_batch, on_publish=on_publish)
        return running.await_end(stop)


def start_stream(
    spark: SparkSession,
    lake: Lake,
    settings: Settings,
    options: StreamOptions = StreamOptions(),  # noqa: B008 - frozen
    *,
    on_batch: OnBatch = lambda _done: None,
    on_publish: OnPublish = lambda _n, _took_s: None,
) -> "RunningStream":
    """Start the query in an existing session and return at once."""
    _check_lake(lake, options)
    if options.reset:
        reset(lake, options)
    return RunningStream(spark, lake, settings, options, on_batch=on_batch, on_publish=on_publish)


def reset(lake: Lake, options: StreamOptions) -> None:
    """Delete all tables of the lake, the stream's state and its checkpoint. The segments stay."""
    for folder in (lake.tables, f"{lake.root.rstrip('/')}/{STREAM}", options.checkpoint):
        if folder is not None:
            delete_tree(folder)


class RunningStream:
    """A started query."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        settings: Settings,
        options: StreamOptions,
        *,
        on_batch: OnBatch,
        on_publish: OnPublish,
    ) -> None:
        self._spark = spark
        self._on_batch = on_batch
        self._on_publish = on_publish
        self._work = MicroBatches(spark, lake, settings, buckets=options.buckets, operator_key=options.operator_key)
        self._problem: BaseException | None = None
        self._batches = self._rows = 0
        self._settings = settings
        self._lake = lake
        self._is_once = options.once
        self._is_published = options.is_published
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.query = self._start(lake, options)

    def await_end(self, stop: threading.Event | None = None) -> Streamed:
        """Wait until the query ends, or until the batch in progress is done after `stop` was set."""
        stop = stop or threading.Event()
        try:
            with self._own_errors():
                _await(self.query, stop)
            if self._is_published and not stop.is_set():
                self._publish()
        finally:
            self.close()
        catalog = self._work.batches.catalog
        return Streamed(
            n=catalog.number,
            batches=self._batches,
            rows=self._rows,
            counts=catalog.counts,
            bad_files=tuple(BadSegment(name=one.name, reason=one.reason) for one in catalog.rejected),
        )

    def close(self) -> None:
        """Stop the query; a batch in progress is cancelled and run again by the next start."""
        if self.query.isActive:
            self._spark.sparkContext.cancelAllJobs()
            self.query.stop()
        if self._scratch is not None:
            self._scratch.cleanup()

    def _start(self, lake: Lake, options: StreamOptions) -> StreamingQuery:
        self._spark.dataSource.register(SegmentSource)
        source = self._spark.readStream.format(FORMAT).option("lake", lake.root)
        rows = (
            source.option("filesPerBatch", options.files_per_batch)
            .option("bytesPerBatch", options.bytes_per_batch)
            .load()
        )
        writer = rows.writeStream.queryName(QUERY_NAME).foreachBatch(self._run)
        writer = writer.option("checkpointLocation", self._checkpoint(lake, options))
        if options.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{options.poll_interval_s} seconds").start()

    def _checkpoint(self, lake: Lake, options: StreamOptions) -> str:
        """In the lake where it is on this machine. Elsewhere a temporary one does: losing it loses nothing."""
        if options.checkpoint is not None:
            return spark_path(options.checkpoint)
        if is_here(lake.root):
            return spark_path(lake.stream_table("checkpoint"))
        self._scratch = tempfile.TemporaryDirectory(prefix="restante-checkpoint-", ignore_cleanup_errors=True)
        return spark_path(self._scratch.name)

    def _run(self, rows: DataFrame, _batch_id: int) -> None:
        try:
            for row in sorted(rows.collect()):
                done = self._work.run(row["n"])
                if done is not None:
                    self._batches += 1
                    self._rows += done.rows
                    self._on_batch(done)
            if self._is_published and (not self._is_once or self._must_publish_now()):
                self._publish()
            forget_exit_files(self._spark)
        except BaseException as problem:
            self._problem = problem  # the query keeps only its text
            raise

    def _must_publish_now(self) -> bool:
        """Whether the changed rows might soon be too many to be known, and old events that a build of all rows needs
        were deleted."""
        before = last_published(self._lake)
        if before is None or self._work.batches.catalog.retained_from is None:
            return False
        return self._work.batches.rows_since(before.n) > MOST_ROWS // 2

    def _publish(self) -> None:
        """Bring the derived tables up to date, if they are not."""
        batch = self._work.batches.done
        before = last_published(self._lake)
        if batch == 0 or (before is not None and before.n == batch):
            return
        began_s = time.monotonic()
        if before is not None and only_retained_since(self._work.batches, before.n):
            keep_tables(self._lake, batch=batch)
        else:
            publish_beside_others(self._lake, batch, lambda: self._build_tables(batch))
        self._on_publish(batch, time.monotonic() - began_s)

    def _build_tables(self, batch: int) -> None:
        segments, _ = segments_read(self._lake, self._work.batches.catalog)
        publish(
            self._spark,
            self._lake,
            now_ms=int(time.time() * 1_000),
            retention=self._settings.dead_letters,
            provenance=provenance_of(segment.claim for segment in segments),
            batch=batch,
        )

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        try:
            yield
        except StreamingQueryException as error:
            if self._problem is not None:
                raise self._problem from None
            if found := OWN_ERROR.search(str(error)):
                raise StoreUnusable(found[1].strip()) from error
            raise


def _await(query: Any, stop: threading.Event) -> None:
    while query.isActive and not stop.wait(STOP_POLL_S):
        pass
    while query.isActive and query.status["isTriggerActive"]:
        time.sleep(STOP_POLL_S)
    problem = query.exception()
    if problem is not None:
        raise problem


def _check_lake(lake: Lake, options: StreamOptions) -> None:
    if options.buckets < 1:
        raise ConfigurationInvalid("a stream has at least one bucket")
    if is_here(lake.root) and not lake.local_segments.is_dir():
        raise RestanteError(
            f"{lake.local_segments} is not a directory; journals are shipped to 'segments' in a lake",
            code=Code.NOT_FOUND,
        )
    if not options.reset:
        check_can_begin(lake)
