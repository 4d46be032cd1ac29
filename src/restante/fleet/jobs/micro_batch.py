"""One micro-batch of the stream (SPEC 13.2, 13.9): a plan of segments in, a committed batch out, one Spark job.

Spark reads the rows as in a backfill and repartitions them by writer; fleet/stream decides what becomes of a bucket of
writers. A batch that is committed already is skipped, so a query with an old checkpoint repeats nothing.
"""

import json
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from restante.core.fleet.enrolment import newest_serials
from restante.fleet.jobs.retention import delete_days
from restante.fleet.kernels.row_rules import SHARED_BYTES
from restante.fleet.lake.enrolment_file import enrolment_stamp, read_enrolment
from restante.fleet.lake.file_systems import open_folder
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.segments import (
    UNKNOWN_KEY,
    Segment,
    SegmentChanged,
    check_unchanged,
    damaged,
    inspect_segments,
    read_segments,
    signed_files,
)
from restante.fleet.spark.errors import is_for_want_of_room
from restante.fleet.spark.map_in_arrow import BatchFunction
from restante.fleet.stream.annotate import annotate_rows
from restante.fleet.stream.batches import (
    MERGE_INTERVAL,
    READ,
    REJECTED,
    Batches,
    Catalog,
    EventChanges,
    RejectedFile,
    SegmentRow,
    with_rejected,
)
from restante.fleet.stream.bucket_files import Bucket, BucketWriter, FileRef, background_sync, default_cache
from restante.fleet.stream.bucket_step import Counts, advance, remove_file_rows
from restante.fleet.stream.claims import claimed_before, signed_before
from restante.fleet.stream.duplicates import BatchFiles
from restante.fleet.stream.rows import EVENTS, QUARANTINE
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE
from restante.model.errors import StoreUnusable
from restante.policy.settings import Settings

BUCKETS: Final = 16  # more than one machine has cores, so that no task is left alone with most of the rows
MOST_TRIES: Final = 3
"""How often a batch is read when a signed segment is replaced meanwhile, as by a writer that ships it again."""
_FRAGMENT: Final = "bucket int, fragment string"


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchResult:
    """What one batch read and what came of it."""

    n: int
    segments: int
    rows: int
    counts: Counts
    rejected_files: int
    took_s: float


class MicroBatches:
    """Runs the batches of one lake, in order."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        settings: Settings,
        *,
        buckets: int = BUCKETS,
        operator_key: bytes | None = None,
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._settings = settings
        self._operator_key = operator_key
        self._folder = open_folder(lake.segments, spark)
        self.batches = Batches(lake, buckets=buckets)

    def run(self, n: int) -> MicroBatchResult | None:
        """Run batch `n`; None if it is committed already, or reads nothing because it deletes old days."""
        began = time.monotonic()
        self.batches.roll_forward()
        if n <= self.batches.done:
            return None
        if self.batches.planned_retention(n) is not None:
            with self._explained_errors():
                delete_days(self.batches, n, self._settings)
            return None
        plan = self.batches.plan(n)
        if n != self.batches.done + 1 or not plan:
            raise StoreUnusable(
                f"the checkpoint is at batch {n}, the lake at {self.batches.done}; delete the checkpoint"
            )
        self._spark.sparkContext.setJobDescription(f"restante batch {n}: {len(plan)} segments")
        with self._explained_errors():
            catalog, outcome, counts, rows, changes = self._advance_unchanged(n, plan)
            self.batches.commit(catalog, outcome, counts, rows, changes)
            if n % MERGE_INTERVAL == 0:
                self.batches.vacuum()
        return MicroBatchResult(
            n=n,
            segments=sum(one.status == READ for one in outcome),
            rows=rows,
            counts=counts,
            rejected_files=len(catalog.rejected),
            took_s=time.monotonic() - began,
        )

    def _advance_unchanged(
        self, n: int, plan: Sequence[SegmentRow]
    ) -> tuple[Catalog, list[SegmentRow], Counts, int, EventChanges]:
        """Read the batch again if a signed segment changed: nothing was committed, and the plan is the same."""
        for _ in range(MOST_TRIES - 1):
            with suppress(SegmentChanged):
                return self._advance(n, plan)
        return self._advance(n, plan)

    def _advance(
        self, n: int, plan: Sequence[SegmentRow]
    ) -> tuple[Catalog, list[SegmentRow], Counts, int, EventChanges]:
        before = self.batches.catalog
        planned = {row.name: row for row in plan}
        stamp = enrolment_stamp(self._lake.root)
        enrolment = read_enrolment(self._lake.root, self._operator_key)
        serials = newest_serials(before.enrolment_serials, self._operator_key, enrolment)
        segments, bad = inspect_segments(self._folder, sorted(planned), enrolment)
        reread = frozenset(one.name for one in before.rejected if one.rows_taken and one.name in planned)
        buckets, counts = self._without_file_rows(before, reread)
        files = BatchFiles(reread=reread, signed=signed_files(segments), find_signed=partial(signed_before, self._lake))
        if before.retained_from is not None:
            files = replace(files, find_claimed=partial(claimed_before, self._lake))
        work = _advance_bucket(self._lake.root, buckets, files, self._settings, retained_from=before.retained_from, n=n)
        fragments = self._run(segments, len(buckets), work)
        check_unchanged(self._spark, segments)
        read: dict[str, int] = {}
        changes = EventChanges()
        after = list(buckets)
        for place, fragment in fragments:
            after[place] = Bucket.from_json(fragment["bucket"])
            counts += Counts(**fragment["counts"])
            changes += EventChanges(came=tuple(fragment["came"]), went=tuple(fragment["went"]))
            for name, rows in fragment["files"].items():
                read[name] = read.get(name, 0) + rows
        short = damaged(segments, read)
        rejected = [_rejected(planned[one.name], one.reason, read.get(one.name, 0), stamp) for one in (*bad, *short)]
        all_rejected = with_rejected(before, planned, rejected)
        catalog = replace(
            before,
            number=n,
            buckets=tuple(after),
            rejected=all_rejected,
            rejected_rows=self._rejected_rows(before, all_rejected),
            counts=before.counts + counts,
            enrolment_serials=serials,
        )
        return catalog, _outcome(plan, segments, rejected), counts, sum(read.values()), changes

    def _without_file_rows(self, before: Catalog, reread: Container[str]) -> tuple[tuple[Bucket, ...], Counts]:
        """Of a damaged file that is read again, all rows but the events come again: remove them first."""
        buckets, counts = list(before.buckets), Counts()
        for name in sorted(one.name for one in before.rejected if one.name in reread):
            for place, bucket in enumerate(buckets):
                buckets[place], gone = remove_file_rows(self._writer(place), bucket, name)
                counts += gone
        return tuple(buckets), counts

    def _rejected_rows(self, before: Catalog, rejected: tuple[RejectedFile, ...]) -> FileRef | None:
        """The quarantine names the rejected files, too."""
        if rejected == before.rejected:
            return before.rejected_rows
        rows = [{SOURCE_FILE: one.name, "reason": one.reason} for one in rejected]
        written = self._writer(0).write_table("quarantine", pa.Table.from_pylist(rows, schema=QUARANTINE))
        return written[0] if written else None

    def _writer(self, bucket: int) -> BucketWriter:
        return BucketWriter(self._lake.root, bucket, default_cache(self._lake.root))

    def _run(self, segments: Sequence[Segment], buckets: int, work: BatchFunction) -> list[tuple[int, dict[str, Any]]]:
        if not any(segment.rows for segment in segments):
            return []
        rows = incoming_rows(read_segments(self._spark, segments), buckets)
        done = rows.mapInArrow(work, _FRAGMENT)
        return [(row["bucket"], json.loads(row["fragment"])) for row in done.collect()]

    @contextmanager
    def _explained_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, PySparkException) as error:
            if is_for_want_of_room(error):
                raise StoreUnusable(f"no space left on the disk of {self._lake.root}; nothing is lost") from error
            if isinstance(error, OSError):
                raise StoreUnusable(f"the stream's files cannot be written: {error}") from error
            raise


def incoming_rows(rows: DataFrame, buckets: int) -> DataFrame:
    """Rows of segments as stream.rows.EVENTS; the number of a bucket is that of its task."""
    bucket = sf.pmod(sf.xxhash64(sf.substring("event_id", 1, SHARED_BYTES)), sf.lit(buckets)).cast("int")
    return rows.select(*JOURNAL_COLUMNS, SOURCE_FILE).repartitionById(buckets, bucket)


def _advance_bucket(
    root: str, buckets: tuple[Bucket, ...], files: BatchFiles, settings: Settings, *, retained_from: str | None, n: int
) -> BatchFunction:
    order, dedup = settings.order, settings.dedup

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        came = list(batches)
        if not came:
            return
        context: Any = TaskContext.get()
        place: int = context.partitionId()
        rows = annotate_rows(pa.Table.from_batches(came).select(EVENTS.names).cast(EVENTS))
        with background_sync() as sync:
            writer = BucketWriter(root, place, default_cache(root), sync)
            step = advance(
                writer, buckets[place], rows, files=files, order=order, dedup=dedup, retained_from=retained_from, n=n
            )
        writer.drop_cached(step.bucket)
        read = rows["source_file"].value_counts()
        fragment = {
            "bucket": step.bucket.as_json(),
            "counts": asdict(step.counts),
            "came": [ref.name for ref in step.came],
            "went": [ref.name for ref in step.went],
            "files": {one["values"].as_py(): one["counts"].as_py() for one in read},
        }
        yield pa.RecordBatch.from_pydict(
            {"bucket": pa.array([place], pa.int32()), "fragment": pa.array([json.dumps(fragment)])}
        )

    return run


def _rejected(row: SegmentRow, reason: str, rows_taken: int, stamp: str) -> RejectedFile:
    return RejectedFile(
        name=row.name,
        reason=reason,
        size_bytes=row.size_bytes,
        changed_ns=row.changed_ns,
        rows_taken=rows_taken,
        enrolment=stamp if reason.startswith(UNKNOWN_KEY) else None,
    )


def _outcome(
    plan: Sequence[SegmentRow], segments: Sequence[Segment], rejected: Sequence[RejectedFile]
) -> list[SegmentRow]:
    """What became of each planned segment. One read in part is both, and counts as read."""
    reasons = {one.name: one.reason for one in rejected}
    read = {segment.path.name: segment for segment in segments}
    return [
        replace(
            row,
            status=READ if row.name in read else REJECTED,
            rows=read[row.name].rows if row.name in read else 0,
            reason=reasons.get(row.name),
            claim=_claim_text(read.get(row.name)),
        )
        for row in plan
    ]


def _claim_text(segment: Segment | None) -> str | None:
    return None if segment is None or segment.claim is None else json.dumps(asdict(segment.claim))


OnBatch = Callable[[MicroBatchResult], None]
