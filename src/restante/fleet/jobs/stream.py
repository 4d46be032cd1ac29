"""Micro-batches of `restante fleet run` (SPEC 13.2, 13.9): new segments in, a commit out, one Spark job each.

Spark reads rows as in a backfill and divides them by writer; what becomes of a bucket of writers is decided in
fleet/stream. A micro-batch is done when its commit is written; when one is due, jobs/stream_run decides.
"""

import json
import secrets
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from restante.fleet.kernels.row_rules import SHARED_BYTES
from restante.fleet.lake.file_systems import Listing, open_folder
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.segments import DRAFT_PREFIXES, Segment, damaged, inspect_segment, read_segments
from restante.fleet.spark.errors import is_for_want_of_room
from restante.fleet.spark.map_in_arrow import BatchFunction, map_in_arrow
from restante.fleet.stream.bucket_step import Counts, advance, forget_file
from restante.fleet.stream.commits import (
    DATA,
    Commit,
    OddFile,
    latest_commit,
    remove_old_state,
    remove_rubbish,
    sync_directories,
    taken_segments,
    with_taken,
    write_commit,
)
from restante.fleet.stream.files import Bucket, Desk, synced_meanwhile
from restante.fleet.stream.rows import READ
from restante.fleet.stream.told import described
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE
from restante.model.errors import Malformed, StoreUnusable
from restante.policy.settings import Settings
from restante.wire.segment_manifest import SEGMENT_SUFFIX, manifest_name

BUCKETS: Final = 16  # more than one machine has cores, so that no task is left alone with most of the rows
ROWS_PER_STEP: Final = 4_000_000
"""Segments are taken until they have so many rows, a quarter of a million a bucket: more cost memory, fewer make the
state be written more often."""
FILES_PER_STEP: Final = 10_000
TIDY_EVERY: Final = 64  # commits
_FRAGMENT: Final = "bucket int, fragment string"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """One micro-batch: what it read, what came of it, and how many segments wait for the next."""

    commit: int
    segments: int
    rows: int
    counts: Counts
    odd_files: int
    waiting: int
    took_s: float


@dataclass(frozen=True, slots=True)
class _Found:
    """Segments to take now; odd files that are new or have changed; and how many files are left for later."""

    segments: list[Segment]
    odd: list[OddFile]
    waiting: int
    listing: Listing


class Stream:
    """The stream of one lake, which nobody else works on meanwhile (stream.commits.only_one)."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        settings: Settings,
        *,
        buckets: int = BUCKETS,
        rows_per_step: int = ROWS_PER_STEP,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._rows_per_step = rows_per_step
        self._folder = open_folder(lake.segments, spark)
        self.root = lake.local_stream
        self.commit = latest_commit(self.root) or Commit(buckets=(Bucket(),) * buckets)
        self._taken = set(taken_segments(self.root, self.commit.taken))
        remove_rubbish(self.root, self.commit)

    def step(self) -> StepDone | None:
        """Take some of the segments that are new, or nothing if there are none."""
        began = time.monotonic()
        found = self._look()
        if not found.segments and not found.odd:
            return None
        with self._room_or_words():
            commit, counts, rows = self._advanced(found)
            self._keep(commit, [segment.path.name for segment in found.segments])
        return StepDone(
            commit=commit.number,
            segments=len(found.segments),
            rows=rows,
            counts=counts,
            odd_files=len(commit.odd_files),
            waiting=found.waiting,
            took_s=time.monotonic() - began,
        )

    def note_written(self) -> None:
        """The tables for other readers are as this commit has them."""
        number = self.commit.number + 1
        with self._room_or_words():
            self._keep(replace(self.commit, number=number, written=number, unwritten_days=frozenset()), [])

    @contextmanager
    def _room_or_words(self) -> Iterator[None]:
        """What the disk refuses, said so that a person knows what to do."""
        try:
            yield
        except (OSError, PySparkException) as error:
            if is_for_want_of_room(error):
                raise StoreUnusable(f"no room is left on the disk of {self.root}; nothing is lost by it") from error
            if isinstance(error, OSError):
                raise StoreUnusable(f"the stream's files cannot be written: {error}") from error
            raise

    def _look(self) -> _Found:
        """By name: a writer's segments then come in the order of its facts."""
        known = {one.name: (one.size_bytes, one.changed_ns) for one in self.commit.odd_files}
        names = self._folder.names()
        new: Listing = {}
        for name in names:
            if name in self._taken and name not in known:
                continue
            if not name.endswith(SEGMENT_SUFFIX) or name.startswith(DRAFT_PREFIXES):
                continue
            with suppress(FileNotFoundError):  # gone again: whoever ships replaces files by renaming
                status = self._folder.status(name)
                if known.get(name) != status:
                    new[name] = status
        segments: list[Segment] = []
        odd: list[OddFile] = []
        rows, manifests = 0, frozenset(names)
        for place, name in enumerate(sorted(new)):
            if rows >= self._rows_per_step or place >= FILES_PER_STEP:
                return _Found(segments, odd, len(new) - place, new)
            try:
                segments.append(inspect_segment(self._folder, name, has_manifest=manifest_name(name) in manifests))
                rows += segments[-1].rows
            except Malformed as error:
                odd.append(_odd_file(name, str(error), new[name]))
        return _Found(segments, odd, 0, new)

    def _advanced(self, found: _Found) -> tuple[Commit, Counts, int]:
        number = self.commit.number + 1
        folder = f"{DATA}/{number:012d}-{secrets.token_hex(4)}"
        read_now = {segment.path.name: segment.rows for segment in found.segments} | {one.name: 0 for one in found.odd}
        once_more = frozenset(one.name for one in self.commit.odd_files if one.rows_taken and one.name in read_now)
        buckets, counts = self._without_odd_rows(folder, once_more)
        work = _advance_bucket(Desk(self.root, folder, 0), buckets, once_more, self._settings)
        fragments = self._run(found.segments, len(buckets), work)
        read: dict[str, int] = {}
        days = set(self.commit.unwritten_days)
        after = list(buckets)
        for place, fragment in fragments:
            after[place] = Bucket.from_json(fragment["bucket"])
            counts += Counts(**fragment["counts"])
            days.update(fragment["days"])
            for name, rows in fragment["files"].items():
                read[name] = read.get(name, 0) + rows
        commit = Commit(
            number=number,
            buckets=tuple(after),
            taken=with_taken(self.root, folder, self.commit.taken, read_now),
            odd_files=self._odd_files(found, read, read_now),
            counts=self.commit.counts + counts,
            unwritten_days=frozenset(days),
            written=self.commit.written,
        )
        if (self.root / folder).exists():
            sync_directories([self.root / folder, self.root / DATA])
        return commit, counts, sum(read.values())

    def _without_odd_rows(self, folder: str, once_more: frozenset[str]) -> tuple[tuple[Bucket, ...], Counts]:
        """Of a file that was damaged and is read once more, all rows but the events come once more, too."""
        buckets, counts = list(self.commit.buckets), Counts()
        for name in sorted(once_more):
            for place, bucket in enumerate(buckets):
                buckets[place], gone = forget_file(Desk(self.root, folder, place), bucket, name)
                counts += gone
        return tuple(buckets), counts

    def _odd_files(self, found: _Found, read: dict[str, int], read_now: Container[str]) -> tuple[OddFile, ...]:
        short = [
            replace(_odd_file(bad.name, bad.reason, found.listing[bad.name]), rows_taken=read.get(bad.name, 0))
            for bad in damaged(found.segments, read)
        ]
        still = [one for one in self.commit.odd_files if one.name not in read_now]
        return tuple(sorted([*still, *found.odd, *short], key=lambda one: one.name))

    def _run(self, segments: Sequence[Segment], buckets: int, work: BatchFunction) -> list[tuple[int, dict[str, Any]]]:
        if not any(segment.rows for segment in segments):
            return []
        rows = incoming_rows(read_segments(self._spark, segments), buckets)
        done = map_in_arrow(rows, work, _FRAGMENT)
        return [(row["bucket"], json.loads(row["fragment"])) for row in done.collect()]

    def _keep(self, commit: Commit, names: Sequence[str]) -> None:
        write_commit(self.root, commit)
        before, self.commit = self.commit, commit
        self._taken.update(names, (one.name for one in commit.odd_files))
        remove_old_state(self.root, before, commit)
        if commit.number % TIDY_EVERY == 0:
            remove_rubbish(self.root, commit)


def incoming_rows(rows: DataFrame, buckets: int) -> DataFrame:
    """Rows of segments as stream.rows.READ; a bucket's number is that of its task."""
    bucket = sf.pmod(sf.xxhash64(sf.substring("event_id", 1, SHARED_BYTES)), sf.lit(buckets)).cast("int")
    return rows.select(*JOURNAL_COLUMNS, SOURCE_FILE).repartitionById(buckets, bucket)


def _advance_bucket(
    desk: Desk, buckets: tuple[Bucket, ...], once_more: frozenset[str], settings: Settings
) -> BatchFunction:
    order, dedup = settings.order, settings.dedup

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        came = list(batches)
        if not came:
            return
        context: Any = TaskContext.get()
        place: int = context.partitionId()
        rows = described(pa.Table.from_batches(came).select(READ.names).cast(READ))
        with synced_meanwhile() as sync:
            there = replace(desk, bucket=place, sync=sync)
            step = advance(there, buckets[place], rows, once_more=once_more, order=order, dedup=dedup)
        files = rows["source_file"].value_counts()
        counted = {one["values"].as_py(): one["counts"].as_py() for one in files}
        fragment = {
            "bucket": step.bucket.as_json(),
            "counts": asdict(step.counts),
            "days": step.days,
            "files": counted,
        }
        yield pa.RecordBatch.from_pydict(
            {"bucket": pa.array([place], pa.int32()), "fragment": pa.array([json.dumps(fragment)])}
        )

    return run


def _odd_file(name: str, reason: str, status: tuple[int, int]) -> OddFile:
    size_bytes, changed = status
    return OddFile(name=name, reason=reason, size_bytes=size_bytes, changed_ns=changed)


OnStep = Callable[[StepDone], None]
