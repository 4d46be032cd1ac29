"""What a report on a place is made from: what its stream knows, the tables of a backfill, or the segments themselves.

All three give the same report. Tables count only where a record says that they were made from the files that are there
now (backfill_record); then nothing is validated a second time. What the rows mean is decided elsewhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from restante.fleet.jobs.conservation_report import Rows, counted, surveyed
from restante.fleet.jobs.stream_tables import stream_judged, stream_segments
from restante.fleet.lake.backfill_manifest import BackfillRecord, record_of
from restante.fleet.lake.layout import EVENTS_TABLE, Lake, exists, is_here, spark_path
from restante.fleet.lake.segment_discovery import Found, found_in
from restante.fleet.lake.segments import Segment
from restante.fleet.stream.commits import Commit, latest_commit
from restante.fleet.tables.journal_schema import JOURNAL, JOURNAL_COLUMNS
from restante.fleet.transforms.prescan import RowCount
from restante.fleet.transforms.validate import RowVerdict
from restante.model.conservation_report import BadSegment, ReadFrom


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is known of a place before Spark is there. `found` is None for one that is not on this machine."""

    where: str
    lake: Lake
    commit: Commit | None = None
    found: Found | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    read_from: ReadFrom
    segments: list[Segment]
    bad: list[BadSegment]
    rows: Rows


def look_at(where: str, *, state: Path | None = None) -> Place:
    """`where` is a directory of segments or a lake, here or anywhere Hadoop finds it; `state` as a lake has it."""
    lake = Lake(where, state)
    commit = latest_commit(lake.local_stream) if lake.has_stream else None
    if commit is not None or not is_here(where):
        return Place(where=where, lake=lake, commit=commit)
    is_lake = lake.local_segments.is_dir()
    return Place(where=where, lake=lake, found=found_in(lake.segments if is_lake else where))


def source_of(spark: SparkSession, place: Place) -> Source:
    """The best there is at this place."""
    lake = place.lake
    if place.commit is not None:
        segments, bad = stream_segments(lake.local_stream, place.commit)
        judged = stream_judged(spark, lake.local_stream, place.commit)
        return Source(read_from=ReadFrom.STREAM, segments=segments, bad=bad, rows=counted(judged))
    found = place.found or found_in(lake.segments if exists(spark, lake.segments) else place.where, spark)
    record = record_of(spark, lake, found.listing)
    if record is not None:
        rows = tabled(spark, lake, record)
        return Source(read_from=ReadFrom.TABLES, segments=record.segments, bad=record.bad, rows=rows)
    rows = surveyed(spark, found.segments)
    return Source(read_from=ReadFrom.SEGMENTS, segments=found.segments, bad=found.bad, rows=rows)


@contextmanager
def tabled(spark: SparkSession, lake: Lake, record: BackfillRecord) -> Iterator[tuple[DataFrame, tuple[RowCount, ...]]]:
    """The events of a backfill, which judged all rows; how many were no events, its record says."""
    verdict = sf.lit(RowVerdict.EVENT.value).alias("verdict")
    table = spark.read.schema(JOURNAL).parquet(spark_path(lake.table(EVENTS_TABLE)))
    yield table.select(*JOURNAL_COLUMNS, verdict), record.found
