"""The tables of a stream as Spark has them, and the copy of them that other readers find under `tables/`.

A stream's own files are what its latest commit names; the copy has the names and days of a backfill's, is written from
time to time, and only the days that have changed.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from restante.fleet.lake.backfill_manifest import forget_record
from restante.fleet.lake.layout import ARRIVALS_TABLE, DAY, EVENTS_TABLE, QUARANTINE_TABLE, Lake, file_system
from restante.fleet.lake.segments import Segment, as_spark_path
from restante.fleet.lake.table_writer import QUARANTINE, file_rows, with_day, write_days, write_whole
from restante.fleet.stream.commits import Commit, taken_segments
from restante.fleet.tables.journal_schema import JOURNAL, ROWS, SOURCE_FILE
from restante.fleet.transforms.arrivals import JUDGED, UNUSABLE, in_words
from restante.fleet.transforms.validate import RowVerdict
from restante.model.conservation_report import BadSegment

_EPOCH: Final = date(1970, 1, 1)


def stream_events(spark: SparkSession, root: Path, commit: Commit) -> DataFrame:
    """The facts, each once: the columns of the journal."""
    return _read(spark, root, _names(commit, "events"), JOURNAL)


def stream_arrivals(spark: SparkSession, root: Path, commit: Commit) -> DataFrame:
    return in_words(_read(spark, root, _names(commit, "arrivals"), JUDGED))


def stream_quarantine(spark: SparkSession, root: Path, commit: Commit) -> DataFrame:
    rows = _read(spark, root, _names(commit, "quarantine"), QUARANTINE)
    return rows.unionByName(file_rows(spark, bad_segments(commit)))


def stream_judged(spark: SparkSession, root: Path, commit: Commit) -> DataFrame:
    """Every row that was read with its verdict, as transforms/validate.judge has it; of a copy, only its event's id."""
    nothing = sf.lit(None)
    events = _read(spark, root, _names(commit, "events"), ROWS).select(
        *ROWS.names, sf.lit(RowVerdict.EVENT.value).alias("verdict"), nothing.cast("string").alias("reason")
    )
    copies = _read(spark, root, _names(commit, "repeats"), "event_id binary, source_file string").select(
        *(
            sf.col(f.name) if f.name in {"event_id", SOURCE_FILE} else nothing.cast(f.dataType).alias(f.name)
            for f in ROWS
        ),
        sf.lit(RowVerdict.DUPLICATE.value).alias("verdict"),
        nothing.cast("string").alias("reason"),
    )
    # An arrival that cannot be used is an event, too, and was counted as one.
    odd = _read(spark, root, _names(commit, "quarantine"), QUARANTINE).filter(sf.col("reason") != UNUSABLE)
    return events.unionAll(copies).unionByName(odd.withColumn("verdict", sf.lit(RowVerdict.QUARANTINED.value)))


def stream_segments(root: Path, commit: Commit) -> tuple[list[Segment], list[BadSegment]]:
    """The segments that the stream has read, and the files it could not read at all."""
    unread = [one for one in commit.odd_files if not one.rows_taken]
    without = {one.name for one in unread}
    taken = taken_segments(root, commit.taken)
    good = [Segment(path=Path(name), rows=rows) for name, rows in sorted(taken.items()) if name not in without]
    return good, [BadSegment(name=one.name, reason=one.reason) for one in unread]


def bad_segments(commit: Commit) -> tuple[BadSegment, ...]:
    return tuple(BadSegment(name=one.name, reason=one.reason) for one in commit.odd_files)


def write_tables(spark: SparkSession, lake: Lake, commit: Commit) -> None:
    """The days that have changed take the place of the same days under `tables/`."""
    root = lake.local_stream
    forget_record(spark, lake)
    days = [_EPOCH + timedelta(days=number) for number in sorted(commit.unwritten_days)]
    for table, rows in (
        (EVENTS_TABLE, stream_events(spark, root, commit)),
        (ARRIVALS_TABLE, stream_arrivals(spark, root, commit)),
    ):
        changed = with_day(rows).filter(sf.col(DAY).isin(days))
        if days:
            write_days(changed, lake, table)
        if commit.counts.revoked:
            _remove_empty_days(spark, lake, table, days, changed)
    write_whole(stream_quarantine(spark, root, commit), lake, QUARANTINE_TABLE)


def _remove_empty_days(spark: SparkSession, lake: Lake, table: str, days: Sequence[date], changed: DataFrame) -> None:
    """A day whose last row went to the quarantine: writing no rows for it has left the old ones."""
    here = {row[DAY] for row in changed.select(DAY).distinct().collect()}
    for day in days:
        if day not in here:
            system, path = file_system(spark, f"{lake.table(table)}/{DAY}={day}")
            system.delete(path, True)


def _names(commit: Commit, what: str) -> list[str]:
    return [ref.name for bucket in commit.buckets for ref in getattr(bucket, what)]


def _read(spark: SparkSession, root: Path, names: Sequence[str], schema: StructType | str) -> DataFrame:
    if not names:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*(as_spark_path(root / name) for name in names))
