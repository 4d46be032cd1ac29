"""What a report on a place is made from: what its stream knows, the tables of a backfill, or the segments themselves.

All three give the same report. Tables count only where a record says that they were made from the files that are there
now (backfill_record); then nothing is validated a second time. What the rows mean is decided elsewhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from restante.core.fleet.enrolment import Enrolment
from restante.fleet.jobs.conservation_report import Rows, counted, prescanned
from restante.fleet.jobs.publish import published
from restante.fleet.lake.backfill_manifest import BackfillRecord, record_of
from restante.fleet.lake.delta import exists as table_exists
from restante.fleet.lake.enrolment_file import read_enrolment
from restante.fleet.lake.file_systems import exists
from restante.fleet.lake.layout import Lake, is_here
from restante.fleet.lake.reading import quarantined_rows, read_live, rows_with_verdicts, segments_read
from restante.fleet.lake.segment_discovery import Found, found_in
from restante.fleet.lake.segments import Segment
from restante.fleet.stream.batches import Catalog, last_catalog, open_batches
from restante.fleet.tables.definitions import FleetTables
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE
from restante.fleet.transforms.prescan import RowCount, rows_by_file
from restante.fleet.transforms.validate import RowVerdict
from restante.model.conservation_report import BadSegment, ReadFrom
from restante.model.errors import StoreUnusable


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is known of a source before Spark starts. `found` is None for one that is not on this machine."""

    where: str
    lake: Lake
    enrolment: Enrolment | None = None
    catalog: Catalog | None = None
    found: Found | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    read_from: ReadFrom
    segments: list[Segment]
    bad: list[BadSegment]
    rows: Rows
    tables: FleetTables | None = None
    """The derived tables, where they are published and up to date."""


def look_at(where: str, operator_key: bytes | None = None) -> Place:
    """`where` is a directory of segments or a lake, on this machine or on any store that Spark reads.

    Without the operator's public key no signature is checked.
    """
    lake = Lake(where)
    catalog = last_catalog(open_batches(lake)) if table_exists(lake.stream_table("batches")) else None
    enrolment = read_enrolment(where, operator_key)
    place = Place(where=where, lake=lake, enrolment=enrolment, catalog=catalog)
    if catalog is not None or not is_here(where):
        return place
    is_lake = lake.local_segments.is_dir()
    return replace(place, found=found_in(lake.segments if is_lake else where, enrolment=enrolment))


def source_of(spark: SparkSession, place: Place) -> Source:
    """The stream's tables if there are any, else those of a backfill if they are up to date, else the segments."""
    lake = place.lake
    if place.catalog is not None:
        segments, bad = segments_read(lake, place.catalog, has_keys=place.enrolment is not None)
        validated = rows_with_verdicts(spark, lake, place.catalog)
        tables = published(spark, lake, batch=place.catalog.number)
        if tables is None:
            check_has_all_events(place)
        rows = counted(validated) if tables is None else streamed(spark, lake, place.catalog, segments, validated)
        return Source(read_from=ReadFrom.STREAM, segments=segments, bad=bad, rows=rows, tables=tables)
    found = place.found
    if found is None:
        directory = lake.segments if exists(spark, lake.segments) else place.where
        found = found_in(directory, spark, enrolment=place.enrolment)
    record = record_of(lake, found.listing, place.enrolment)
    if record is not None:
        rows = tabled(spark, lake, record)
        tables = published(spark, lake, batch=0)
        return Source(read_from=ReadFrom.TABLES, segments=record.segments, bad=record.bad, rows=rows, tables=tables)
    rows = prescanned(spark, found.segments)
    return Source(read_from=ReadFrom.SEGMENTS, segments=found.segments, bad=found.bad, rows=rows)


def check_has_all_events(place: Place) -> None:
    """Raise if a report cannot be made from the events of a stream, because old ones were deleted."""
    if place.catalog is not None and place.catalog.retained_from is not None:
        raise StoreUnusable(
            f"events before {place.catalog.retained_from} were deleted: a report is made from the published tables of "
            f"batch {place.catalog.number} alone; 'restante fleet stream --once' brings them up to date"
        )


@contextmanager
def tabled(spark: SparkSession, lake: Lake, record: BackfillRecord) -> Iterator[tuple[DataFrame, tuple[RowCount, ...]]]:
    """Return the events of a backfill, which validated all rows. Its manifest counts the rows that are not events."""
    verdict = sf.lit(RowVerdict.EVENT.value).alias("verdict")
    table = read_live(spark, lake, "events")
    yield table.select(*JOURNAL_COLUMNS, SOURCE_FILE, verdict), record.found


@contextmanager
def streamed(
    spark: SparkSession, lake: Lake, catalog: Catalog, segments: list[Segment], validated: DataFrame
) -> Iterator[tuple[DataFrame, tuple[RowCount, ...]]]:
    """Return rows of a stream that are not read, since its tables are up to date, and the counts by verdict.

    Only duplicates and quarantined rows are read.
    """
    taken = {one.name: one.rows_taken for one in catalog.rejected}
    odd = [
        *counts_by_file(read_live(spark, lake, "repeats").withColumn("reason", sf.lit(None)), RowVerdict.DUPLICATE),
        *counts_by_file(quarantined_rows(spark, lake, catalog), RowVerdict.QUARANTINED),
    ]
    not_events = rows_by_file(odd)
    read = {one.path.name: taken.get(one.path.name, one.rows) for one in segments}
    events = (
        RowCount(source_file=name, verdict=RowVerdict.EVENT, reason=None, rows=rows - not_events.get(name, 0))
        for name, rows in read.items()
    )
    yield validated, (*(one for one in events if one.rows), *odd)


def counts_by_file(rows: DataFrame, verdict: RowVerdict) -> list[RowCount]:
    return [
        RowCount(source_file=row[SOURCE_FILE], verdict=verdict, reason=row["reason"], rows=row["count"])
        for row in rows.groupBy(SOURCE_FILE, "reason").count().collect()
    ]
