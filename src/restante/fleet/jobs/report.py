"""The report on a directory of journal segments: the books, what is unaccounted for, and how long messages took.

It puts the transforms together and hands back plain values. It prints nothing and judges nothing itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession

from restante.fleet.arrow_map import partitions_for
from restante.fleet.segments import BadSegment, Segment, damaged, find_segments, read_segments
from restante.fleet.session import open_session
from restante.fleet.transforms.conservation import books, journal_holes, unaccounted
from restante.fleet.transforms.latency import latency
from restante.fleet.transforms.messages import Doubt, lives, messages
from restante.fleet.transforms.survey import Tally, count_of, judge_surveyed, rows_by_file, survey, tallies, tallies_of
from restante.fleet.transforms.validate import RowVerdict, events
from restante.model.ids import MessageId, WriterId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.states import State

Rows = AbstractContextManager[tuple[DataFrame, tuple[Tally, ...]]]
"""Rows with their verdicts, and how many there are of which; to be had while the block runs."""
LISTED_AT_MOST: Final = 1_000
"""A list in a report ends here, so that a lost month does not fill the driver's memory; its count goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What became of the messages accepted on one day; `day` is None for all days together (SPEC 13.4)."""

    day: date | None
    accepted: int = 0
    delivered: int = 0
    expired: int = 0
    evicted: int = 0
    dead: int = 0
    in_flight: int = 0
    unaccounted: int = 0
    adds_up: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaccountedMessage:
    """A message whose facts cannot be the whole truth. `message_id` is None for facts that name no message."""

    message_id: MessageId | None
    doubt: Doubt
    state: State | None
    last_fact: JournalKind
    last_fact_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHole:
    """Facts that a writer numbered and that never came; `last_fact` is the one before them, None at the start."""

    writer: WriterId
    missing_from: int
    missing_to: int
    last_fact: JournalKind | None
    last_fact_at_ms: int | None
    last_message_id: MessageId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long messages took; `message_kind` is None for all kinds together, or for messages that say no kind."""

    span: str
    message_kind: Kind | None
    of_all_kinds: bool
    messages: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRows:
    """How many rows of one file were refused for one reason."""

    source_file: str
    reason: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """input_rows = events + duplicates + quarantined rows; of a file in `bad_files`, what was read of it counts."""

    segments: int
    input_rows: int
    events: int
    duplicates: int
    quarantine: tuple[QuarantinedRows, ...]
    bad_files: tuple[BadSegment, ...]
    books: tuple[Books, ...]
    unaccounted: tuple[UnaccountedMessage, ...]
    holes: tuple[JournalHole, ...]
    hole_count: int
    latency: tuple[Latency, ...]

    @property
    def quarantined_rows(self) -> int:
        return sum(entry.rows for entry in self.quarantine)

    @property
    def total(self) -> Books:
        """The books of all days in one line."""
        return reduce(_plus, self.books, Books(day=None))

    @property
    def balanced(self) -> bool:
        """Everything accepted is accounted for, and no writer's facts have a hole."""
        return self.total.adds_up and self.total.unaccounted == 0 and self.hole_count == 0

    @property
    def complete(self) -> bool:
        """All that was there could be read. If not, balanced books may still be short of a writer's last facts."""
        return not self.bad_files and not self.quarantine


def run_report(segments_dir: Path, *, master: str = "local[*]") -> Report:
    """The report on `segments_dir`, in a Spark session of its own."""
    segments, bad = find_segments(segments_dir)
    with open_session(app_name="restante report", master=master) as spark:
        return make_report(spark, segments, bad)


def make_report(
    spark: SparkSession, segments: list[Segment], bad: list[BadSegment], *, rows: Rows | None = None
) -> Report:
    """The report on `segments`; or on their `rows` as somebody has judged them already."""
    with surveyed(spark, segments) if rows is None else rows as (judged, found):
        facts = events(judged)
        table = messages(lives(facts, partitions=tasks_for(spark, found))).persist()
        try:
            return report_on(found, table, journal_holes(facts), segments=segments, bad=bad)
        finally:
            table.unpersist()


def tasks_for(spark: SparkSession, verdicts: Sequence[Tally]) -> int:
    """In how many tasks a kernel takes the facts among rows with these verdicts."""
    return partitions_for(count_of(verdicts, RowVerdict.EVENT), at_least=spark.sparkContext.defaultParallelism)


@contextmanager
def surveyed(spark: SparkSession, segments: list[Segment]) -> Iterator[tuple[DataFrame, tuple[Tally, ...]]]:
    """The rows of `segments` with their verdicts, and how many there are of which.

    Rows that are all events are read from the segments again by each table, and only its columns of them: that takes
    less time than to keep them all. Others are kept while the block runs.
    """
    rows = read_segments(spark, segments)
    known = survey(rows)
    judged = judge_surveyed(rows, known)
    if not known.is_clean:
        judged = judged.persist()
    try:
        yield judged, tallies(judged, known)
    finally:
        judged.unpersist()


@contextmanager
def counted(judged: DataFrame) -> Iterator[tuple[DataFrame, tuple[Tally, ...]]]:
    """The same of rows that were judged already; they are kept while the block runs."""
    judged = judged.persist()
    try:
        yield judged, tallies_of(judged)
    finally:
        judged.unpersist()


def report_on(
    verdicts: Sequence[Tally], table: DataFrame, holes: DataFrame, *, segments: list[Segment], bad: list[BadSegment]
) -> Report:
    """The report from the verdicts on all rows, the message table and the holes that were made of them."""
    days = [Books(**row.asDict()) for row in books(table).collect()]
    in_doubt = unaccounted(table) if any(day.unaccounted for day in days) else None
    listed_holes = first_rows(holes, "writer", "missing_from")
    return Report(
        segments=len(segments) + len(bad),
        input_rows=count_of(verdicts),
        events=count_of(verdicts, RowVerdict.EVENT),
        duplicates=count_of(verdicts, RowVerdict.DUPLICATE),
        quarantine=_quarantine(verdicts),
        bad_files=tuple(sorted([*bad, *damaged(segments, rows_by_file(verdicts))], key=lambda file: file.name)),
        books=tuple(sorted(days, key=lambda day: day.day or date.min)),
        unaccounted=_unaccounted(in_doubt),
        holes=tuple(_hole(row) for row in listed_holes),
        hole_count=len(listed_holes) if len(listed_holes) < LISTED_AT_MOST else holes.count(),
        latency=_latencies(latency(table).collect()),
    )


def first_rows(table: DataFrame, *order: str) -> list[Row]:
    """As many rows as a list in a report has at most."""
    return table.orderBy(*order).limit(LISTED_AT_MOST).collect()


def _quarantine(verdicts: Iterable[Tally]) -> tuple[QuarantinedRows, ...]:
    refused = (tally for tally in verdicts if tally.verdict == RowVerdict.QUARANTINED)
    entries = (
        QuarantinedRows(source_file=tally.source_file, reason=tally.reason or "", rows=tally.rows) for tally in refused
    )
    return tuple(sorted(entries, key=lambda entry: (entry.source_file, entry.reason)))


def _plus(one: Books, other: Books) -> Books:
    return Books(
        day=None,
        accepted=one.accepted + other.accepted,
        delivered=one.delivered + other.delivered,
        expired=one.expired + other.expired,
        evicted=one.evicted + other.evicted,
        dead=one.dead + other.dead,
        in_flight=one.in_flight + other.in_flight,
        unaccounted=one.unaccounted + other.unaccounted,
        adds_up=one.adds_up and other.adds_up,
    )


def _unaccounted(table: DataFrame | None) -> tuple[UnaccountedMessage, ...]:
    rows = first_rows(table, "first_fact_at_ms", "message_id") if table is not None else []
    return tuple(
        UnaccountedMessage(
            message_id=_message_id(row["message_id"]),
            doubt=Doubt(row["doubt"]),
            state=None if row["state"] is None else State(row["state"]),
            last_fact=JournalKind(row["last_fact"]),
            last_fact_at_ms=row["last_fact_at_ms"],
        )
        for row in rows
    )


def _hole(row: Row) -> JournalHole:
    return JournalHole(
        writer=WriterId(bytes(row["writer"])),
        missing_from=int(row["missing_from"]),
        missing_to=int(row["missing_to"]),
        last_fact=None if row["last_fact"] is None else JournalKind(row["last_fact"]),
        last_fact_at_ms=row["last_fact_at_ms"],
        last_message_id=_message_id(row["last_message_id"]),
    )


def _latencies(rows: Iterable[Row]) -> tuple[Latency, ...]:
    """By span; in it the kinds by name, then all of them together."""
    found = (
        Latency(
            span=row["span"],
            message_kind=None if row["message_kind"] is None else Kind(row["message_kind"]),
            of_all_kinds=row["of_all_kinds"],
            messages=row["messages"],
            p50_ms=row["p50_ms"],
            p90_ms=row["p90_ms"],
            p99_ms=row["p99_ms"],
            max_ms=row["max_ms"],
        )
        for row in rows
    )
    return tuple(sorted(found, key=lambda row: (row.span, row.of_all_kinds, row.message_kind or "")))


def _message_id(raw: bytes | None) -> MessageId | None:
    return None if raw is None else MessageId(bytes(raw))
