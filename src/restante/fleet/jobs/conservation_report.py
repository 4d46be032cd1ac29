"""The report on a directory of journal segments: day balances, what is unaccounted for, and how long messages took.

It combines the transforms and returns plain values. It prints nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession

from restante.fleet.jobs.segment_survey import survey_segments
from restante.fleet.lake.segments import Segment, check_unchanged, damaged, find_segments, read_segments, signed_files
from restante.fleet.spark.map_in_arrow import partitions_for
from restante.fleet.spark.session import open_session
from restante.fleet.transforms.conservation import conservation, missing_events, unaccounted
from restante.fleet.transforms.latency import latency, latency_days
from restante.fleet.transforms.messages import message_lifecycles, messages
from restante.fleet.transforms.prescan import (
    RowCount,
    count_of,
    rows_by_file,
    tallies,
    tallies_of,
    validate_prescanned,
)
from restante.fleet.transforms.validate import RowVerdict, events
from restante.fleet.transforms.writer_activity import writer_hours
from restante.model.conservation_report import (
    BadSegment,
    ConservationReport,
    DayBalance,
    Inconsistency,
    Latency,
    MissingEvents,
    QuarantinedRows,
    UnaccountedMessage,
)
from restante.model.ids import MessageId, WriterId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.states import State

Rows = AbstractContextManager[tuple[DataFrame, tuple[RowCount, ...]]]
"""Rows with their verdicts, and how many there are of which; to be had while the block runs."""
LISTED_AT_MOST: Final = 1_000
"""A list in a report ends here, so that a lost month does not fill the driver's memory; its count goes on."""


def run_report(segments_dir: Path, *, master: str = "local[*]") -> ConservationReport:
    """The report on `segments_dir`, in a Spark session of its own."""
    segments, bad = find_segments(segments_dir)
    with open_session(app_name="restante report", master=master) as spark:
        return make_report(spark, segments, bad)


def make_report(
    spark: SparkSession, segments: list[Segment], bad: list[BadSegment], *, rows: Rows | None = None
) -> ConservationReport:
    """The report on `segments`, or on their `rows` if these have verdicts already."""
    with prescanned(spark, segments) if rows is None else rows as (validated, found):
        valid = events(validated)
        table = messages(message_lifecycles(valid, partitions=tasks_for(spark, found))).persist()
        tables = {
            "conservation": conservation(table),
            "unaccounted": unaccounted(table),
            "missing_events": missing_events(valid, writer_hours(valid)),
            "latency": latency(latency_days(table)),
        }
        try:
            return report_on(found, tables, segments=segments, bad=bad)
        finally:
            table.unpersist()


def tasks_for(spark: SparkSession, verdicts: Sequence[RowCount]) -> int:
    """In how many tasks a kernel takes the events among rows with these verdicts."""
    return partitions_for(count_of(verdicts, RowVerdict.EVENT), at_least=spark.sparkContext.defaultParallelism)


@contextmanager
def prescanned(spark: SparkSession, segments: list[Segment]) -> Iterator[tuple[DataFrame, tuple[RowCount, ...]]]:
    """The rows of `segments` with their verdicts, and how many there are of which.

    Rows that are all events are read from the segments again by each table, and only its columns of them: that takes
    less time than to keep them all. Others are kept while the block runs.
    """
    rows = read_segments(spark, segments)
    known = survey_segments(spark, segments, rows)
    validated = validate_prescanned(rows, known, signed_files(segments))
    if not known.is_clean:
        validated = validated.persist()
    try:
        yield validated, tallies(validated, known)
        check_unchanged(spark, segments)
    finally:
        validated.unpersist()


@contextmanager
def counted(validated: DataFrame) -> Iterator[tuple[DataFrame, tuple[RowCount, ...]]]:
    """Count rows that are validated already. They are cached while the block runs."""
    validated = validated.persist()
    try:
        yield validated, tallies_of(validated)
    finally:
        validated.unpersist()


def report_on(
    verdicts: Sequence[RowCount],
    tables: Mapping[str, DataFrame],
    *,
    segments: list[Segment],
    bad: list[BadSegment],
) -> ConservationReport:
    """The report from the verdicts on all rows and the tables conservation, unaccounted, missing_events, latency."""
    days = [DayBalance(**row.asDict()) for row in tables["conservation"].collect()]
    in_doubt = tables["unaccounted"] if any(day.unaccounted for day in days) else None
    missing = tables["missing_events"]
    listed = first_rows(missing, "writer", "missing_from")
    return ConservationReport(
        segments=len(segments) + len(bad),
        input_rows=count_of(verdicts),
        events=count_of(verdicts, RowVerdict.EVENT),
        duplicates=count_of(verdicts, RowVerdict.DUPLICATE),
        quarantine=_quarantine(verdicts),
        bad_files=tuple(sorted([*bad, *damaged(segments, rows_by_file(verdicts))], key=lambda file: file.name)),
        days=tuple(sorted(days, key=lambda day: day.day or date.min)),
        unaccounted=_unaccounted(in_doubt),
        missing_events=tuple(_missing(row) for row in listed),
        missing_event_count=len(listed) if len(listed) < LISTED_AT_MOST else missing.count(),
        latency=_latencies(tables["latency"].collect()),
    )


def first_rows(table: DataFrame, *order: str) -> list[Row]:
    """As many rows as a list in a report has at most."""
    return table.orderBy(*order).limit(LISTED_AT_MOST).collect()


def _quarantine(verdicts: Iterable[RowCount]) -> tuple[QuarantinedRows, ...]:
    refused = (count for count in verdicts if count.verdict == RowVerdict.QUARANTINED)
    entries = (
        QuarantinedRows(source_file=count.source_file, reason=count.reason or "", rows=count.rows) for count in refused
    )
    return tuple(sorted(entries, key=lambda entry: (entry.source_file, entry.reason)))


def _unaccounted(table: DataFrame | None) -> tuple[UnaccountedMessage, ...]:
    rows = first_rows(table, "first_event_at_ms", "message_id") if table is not None else []
    return tuple(
        UnaccountedMessage(
            message_id=_message_id(row["message_id"]),
            inconsistency=Inconsistency(row["inconsistency"]),
            state=None if row["state"] is None else State(row["state"]),
            last_event=JournalKind(row["last_event"]),
            last_event_at_ms=row["last_event_at_ms"],
        )
        for row in rows
    )


def _missing(row: Row) -> MissingEvents:
    return MissingEvents(
        writer=WriterId(bytes(row["writer"])),
        missing_from=int(row["missing_from"]),
        missing_to=int(row["missing_to"]),
        last_event=None if row["last_event"] is None else JournalKind(row["last_event"]),
        last_event_at_ms=row["last_event_at_ms"],
        last_message_id=_message_id(row["last_message_id"]),
    )


def _latencies(rows: Iterable[Row]) -> tuple[Latency, ...]:
    """By span; in it the kinds by name, then all of them together."""
    found = (
        Latency(
            span=row["span"],
            message_kind=None if row["message_kind"] is None else Kind(row["message_kind"]),
            is_total=row["is_total"],
            messages=row["messages"],
            p50_ms=row["p50_ms"],
            p90_ms=row["p90_ms"],
            p99_ms=row["p99_ms"],
            max_ms=row["max_ms"],
        )
        for row in rows
    )
    return tuple(sorted(found, key=lambda row: (row.span, row.is_total, row.message_kind or "")))


def _message_id(raw: bytes | None) -> MessageId | None:
    return None if raw is None else MessageId(bytes(raw))
