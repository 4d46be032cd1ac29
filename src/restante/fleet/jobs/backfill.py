"""Make all tables of a lake from all of its segments: events, quarantine, arrivals and what follows (SPEC 13.2, 13.3).

A range of days limits which days of events and arrivals are written, not which are read: the verdict of an arrival
depends on all before it. Running it again writes the same tables again. `now_ms` is the time that actions are for.
"""

from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from restante.core.fleet.enrolment import Enrolment
from restante.fleet.jobs.publish import publish
from restante.fleet.jobs.segment_survey import survey_segments
from restante.fleet.lake.backfill_manifest import BackfillRecord, forget_record, keep_record
from restante.fleet.lake.delta import exists as table_exists
from restante.fleet.lake.enrolment_file import read_enrolment
from restante.fleet.lake.file_systems import Listing
from restante.fleet.lake.layout import DAY, Lake, check_writable
from restante.fleet.lake.segment_discovery import segments_here, segments_of
from restante.fleet.lake.segments import Segment, check_unchanged, damaged, read_segments, signed_files
from restante.fleet.lake.table_writer import (
    discard_files,
    file_rows,
    open_base_table,
    outside,
    replace_files,
    replace_rows,
    with_day,
)
from restante.fleet.spark.job_progress import Watcher, ignore_progress, watched
from restante.fleet.spark.map_in_arrow import partitions_for
from restante.fleet.spark.session import open_session
from restante.fleet.transforms.arrivals import arrivals, unusable_arrivals
from restante.fleet.transforms.prescan import Prescan, count_of, rows_by_file, tallies, validate_prescanned
from restante.fleet.transforms.validate import RowVerdict, event_rows, quarantine
from restante.model.conservation_report import BadSegment
from restante.model.errors import ConfigurationInvalid
from restante.model.provenance import provenance_of
from restante.policy.settings import Settings

FIRST_DAY: Final = date(1970, 1, 1)
LAST_DAY: Final = date(9999, 12, 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """input_rows = events + duplicates + quarantined, over all days that there are events of."""

    segments: int
    input_rows: int
    events: int
    duplicates: int
    quarantined: int
    bad_files: tuple[BadSegment, ...]


def run_backfill(
    lake: Lake,
    settings: Settings,
    *,
    first_day: date = FIRST_DAY,
    last_day: date = LAST_DAY,
    master: str = "local[*]",
    now_ms: int,
    operator_key: bytes | None = None,
    tell: Watcher = ignore_progress,
) -> Backfilled:
    """The tables of `lake` for these days, both included, in a Spark session of its own.

    Without the operator's public key no signature is checked, and no action follows.
    """
    if first_day > last_day:
        raise ConfigurationInvalid(f"the first day, {first_day}, must not be after the last, {last_day}")
    enrolment = read_enrolment(lake.root, operator_key)
    here = segments_here(lake, enrolment)
    check_writable(lake)
    with open_session(app_name="restante backfill", master=master) as spark:
        found = here or segments_of(lake, spark, enrolment)
        return backfill(
            spark,
            lake,
            settings,
            found.segments,
            found.bad,
            listing=found.listing,
            enrolment=enrolment,
            first_day=first_day,
            last_day=last_day,
            now_ms=now_ms,
            tell=tell,
        )


def backfill(
    spark: SparkSession,
    lake: Lake,
    settings: Settings,
    segments: list[Segment],
    bad: list[BadSegment],
    *,
    listing: Listing | None = None,
    enrolment: Enrolment | None = None,
    first_day: date = FIRST_DAY,
    last_day: date = LAST_DAY,
    now_ms: int = 0,
    is_published: bool = True,
    tell: Watcher = ignore_progress,
) -> Backfilled:
    """The same in a session that is there already, of segments that were found already.

    With their `listing` a record of what the tables were made from is left beside them, if they are of all days. If not
    `is_published`, the derived tables stay as they are.
    """
    _check_no_stream(lake)
    rows = read_segments(spark, segments)
    forget_record(lake)
    is_all = (first_day, last_day) == (FIRST_DAY, LAST_DAY)
    keep = outside(first_day, last_day)
    check = partial(check_unchanged, spark, segments)
    with watched(spark, "validating", tell):
        known = survey_segments(spark, segments, rows, write_to=lake if is_all else None)
        validated = validate_prescanned(rows, known, signed_files(segments))
        if known.repeated != ():
            validated = validated.persist(StorageLevel.DISK_ONLY)
        found = tallies(validated, known)
    try:
        broken = sorted([*bad, *damaged(segments, rows_by_file(found))], key=lambda file: file.name)
        until = with_day(event_rows(validated)).filter(sf.col(DAY) <= sf.lit(last_day))
        is_asked_for = sf.col(DAY) >= sf.lit(first_day)
        with watched(spark, "writing events", tell):
            if is_all and known.repeated == ():
                try:
                    check()
                except BaseException:
                    discard_files(open_base_table(lake, "events"), known.files)
                    raise
                replace_files(open_base_table(lake, "events"), known.files)
            else:
                discard_files(open_base_table(lake, "events"), known.files)
                replace_rows(until.filter(is_asked_for), open_base_table(lake, "events"), keep=keep, check=check)
            quarantined = _rejected_rows(spark, validated, known).unionByName(file_rows(spark, broken))
            replace_rows(quarantined, open_base_table(lake, "quarantine"), check=check)
        partitions = partitions_for(known.events_at_most, at_least=spark.sparkContext.defaultParallelism)
        table = arrivals(until, partitions=partitions, order=settings.order, dedup=settings.dedup)
        with watched(spark, "judging arrivals", tell):
            judged = with_day(table).filter(is_asked_for)
            replace_rows(judged, open_base_table(lake, "arrivals"), keep=keep, check=check)
        if is_published:
            with watched(spark, "publishing tables", tell):
                publish(
                    spark,
                    lake,
                    now_ms=now_ms,
                    retention=settings.dead_letters,
                    provenance=provenance_of(segment.claim for segment in segments),
                )
        if is_all and listing is not None:
            record = BackfillRecord(listing=listing, segments=segments, bad=bad, found=found, enrolment=enrolment)
            keep_record(lake, record)
    finally:
        validated.unpersist()
    return Backfilled(
        segments=len(segments) + len(bad),
        input_rows=count_of(found),
        events=count_of(found, RowVerdict.EVENT),
        duplicates=count_of(found, RowVerdict.DUPLICATE),
        quarantined=count_of(found, RowVerdict.QUARANTINED),
        bad_files=tuple(broken),
    )


def _check_no_stream(lake: Lake) -> None:
    if table_exists(lake.stream_table("batches")):
        raise ConfigurationInvalid(
            f"a stream keeps the tables of {lake.root}; 'restante fleet stream --once' brings them up to date"
        )


def _rejected_rows(spark: SparkSession, validated: DataFrame, known: Prescan) -> DataFrame:
    """Rows for the quarantine, without looking for them where the survey saw none."""
    if known.is_clean and not known.unusable:
        return file_rows(spark, ())
    return quarantine(validated).unionByName(unusable_arrivals(validated))
