"""The tables of the lake from all of its segments, in one go: events, quarantine and arrivals (SPEC 13.2, 13.3).

A range of days limits what is written, not what is read: what an arrival was depends on all before it. Doing it again
writes the same tables again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from restante.fleet.lake import ARRIVALS_TABLE, DAY, EVENTS_TABLE, QUARANTINE_TABLE, Lake
from restante.fleet.lake_segments import segments_here, segments_of
from restante.fleet.lake_tables import file_rows, with_day, write_days, write_whole
from restante.fleet.progress import Watcher, nobody, watched
from restante.fleet.schemas import SOURCE_FILE
from restante.fleet.segments import BadSegment, Segment, damaged, read_segments
from restante.fleet.session import open_session
from restante.fleet.transforms.arrivals import arrivals, partitions_for, unusable_arrivals
from restante.fleet.transforms.validate import RowVerdict, events, judge, quarantine
from restante.model.errors import ConfigurationInvalid
from restante.policy.settings import Settings

FIRST_DAY: Final = date(1970, 1, 1)
LAST_DAY: Final = date(9999, 12, 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """input_rows = events + duplicates + quarantined, over all days that there are facts of."""

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
    tell: Watcher = nobody,
) -> Backfilled:
    """The tables of `lake` for these days, both included, in a Spark session of its own."""
    if first_day > last_day:
        raise ConfigurationInvalid(f"the first day, {first_day}, must not be after the last, {last_day}")
    found = segments_here(lake)
    with open_session(app_name="restante backfill", master=master) as spark:
        segments, bad = found or segments_of(lake, spark)
        return backfill(spark, lake, settings, segments, bad, first_day=first_day, last_day=last_day, tell=tell)


def backfill(
    spark: SparkSession,
    lake: Lake,
    settings: Settings,
    segments: list[Segment],
    bad: list[BadSegment],
    *,
    first_day: date = FIRST_DAY,
    last_day: date = LAST_DAY,
    tell: Watcher = nobody,
) -> Backfilled:
    """The same in a session that is there already, of segments that were found already."""
    judged = judge(read_segments(spark, segments)).persist(StorageLevel.DISK_ONLY)
    try:
        with watched(spark, "validating", tell):
            counts = judged.groupBy(SOURCE_FILE, "verdict", "reason").count().collect()
        broken = sorted([*bad, *damaged(segments, _rows_by_file(counts))], key=lambda file: file.name)
        facts = events(judged)
        until = with_day(facts).filter(sf.col(DAY) <= sf.lit(last_day))
        is_asked_for = sf.col(DAY) >= sf.lit(first_day)
        with watched(spark, "writing events", tell):
            write_days(until.filter(is_asked_for), lake, EVENTS_TABLE)
            odd = quarantine(judged).unionByName(unusable_arrivals(judged))
            write_whole(odd.unionByName(file_rows(spark, broken)), lake, QUARANTINE_TABLE)
        partitions = partitions_for(_count(counts, RowVerdict.EVENT), at_least=spark.sparkContext.defaultParallelism)
        table = arrivals(until, partitions=partitions, order=settings.order, dedup=settings.dedup)
        with watched(spark, "judging arrivals", tell):
            write_days(with_day(table).filter(is_asked_for), lake, ARRIVALS_TABLE)
    finally:
        judged.unpersist()
    return Backfilled(
        segments=len(segments) + len(bad),
        input_rows=_count(counts),
        events=_count(counts, RowVerdict.EVENT),
        duplicates=_count(counts, RowVerdict.DUPLICATE),
        quarantined=_count(counts, RowVerdict.QUARANTINED),
        bad_files=tuple(broken),
    )


def _count(counts: Iterable[Row], verdict: RowVerdict | None = None) -> int:
    return sum(row["count"] for row in counts if verdict is None or row["verdict"] == verdict)


def _rows_by_file(counts: Iterable[Row]) -> dict[str, int]:
    read: dict[str, int] = {}
    for row in counts:
        read[row[SOURCE_FILE]] = read.get(row[SOURCE_FILE], 0) + row["count"]
    return read
