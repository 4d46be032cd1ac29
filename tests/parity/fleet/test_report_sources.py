"""A report is the same from the segments, from the tables of a backfill and from the stream; and which is read when."""

import shutil
import threading
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.backfill import LAST_DAY, backfill
from restante.fleet.jobs.conservation_report import make_report
from restante.fleet.jobs.report_input import look_at, source_of
from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.lake.backfill_manifest import RECORD
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.reading import read_live
from restante.fleet.lake.segment_discovery import found_in
from restante.model.conservation_report import ConservationReport, ReadFrom
from restante.model.ids import SessionTag
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.policy.settings import Settings
from support.fleet.journal_files import Journal, message, node_id, records, sealed, write_segment, writer
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
DAY_MS = 86_400_000
NODE = writer(3)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Deliveries over three days with a copy, a contradiction, a broken row, a cut file and a hole."""
    sender, node = Journal(writer(1)), Journal(NODE)
    node.write(JournalKind.NODE_STARTED, None, NOON_MS, node=node_id(1))
    for number in range(9):
        at_ms = NOON_MS + number * DAY_MS // 3
        sender.write(JournalKind.ACCEPTED, message(number), at_ms, message_kind=Kind.TEXT, payload_hash=sealed(number))
        sender.write(JournalKind.DELIVERY_CONFIRMED, message(number), at_ms + 5, node=node_id(1))
        node.write(JournalKind.STORED, None, at_ms + 4, payload_hash=sealed(number), size_bytes=9, ttl_s=86_400)
        sender.write(JournalKind.DELIVERED, message(number), at_ms + 20)
    made = Lake(str(tmp_path / "lake"))
    put = made.local_segments
    put.mkdir(parents=True)
    facts = records(sender.rows)
    write_segment(put / "a.parquet", [*facts[:10], {**facts[0], "kind": "sneezed"}])
    write_segment(put / "b.parquet", [*facts[8:20], *facts[21:]])
    write_segment(put / "c.parquet", [{**facts[5], "code": "x"}, *records(node.rows)])
    (put / "cut.parquet").write_bytes((put / "a.parquet").read_bytes()[:-9])
    return made


def filled(spark: SparkSession, lake: Lake, last_day: date = LAST_DAY) -> None:
    found = found_in(lake.segments)
    backfill(
        spark, lake, Settings(), found.segments, found.bad, listing=found.listing, last_day=last_day, is_published=False
    )


def reported(spark: SparkSession, where: str) -> tuple[ReadFrom, ConservationReport]:
    """The books alone: whatever else a report says follows from the same facts."""
    source = source_of(spark, look_at(where))
    return source.read_from, make_report(spark, source.segments, source.bad, rows=source.rows)


def read_from(spark: SparkSession, where: str) -> ReadFrom:
    return source_of(spark, look_at(where)).read_from


@clause("13.4")
def test_a_report_from_tables_is_that_of_their_segments_and_says_so(spark: SparkSession, lake: Lake) -> None:
    by_segments = reported(spark, lake.root)
    filled(spark, lake)
    by_tables = reported(spark, f"file://{lake.root}")
    assert (by_segments[0], by_tables[0]) == (ReadFrom.SEGMENTS, ReadFrom.TABLES)
    books = by_tables[1]
    assert books == by_segments[1]
    assert (books.duplicates, books.quarantined_rows, books.missing_event_count) == (2, 3, 2)
    assert [file.name for file in books.bad_files] == ["cut.parquet"]
    assert read_from(spark, lake.segments) is ReadFrom.SEGMENTS


def test_tables_do_not_count_once_a_file_has_come_gone_or_changed(spark: SparkSession, lake: Lake) -> None:
    filled(spark, lake)
    put = lake.local_segments
    shutil.copy(put / "a.parquet", put / "d.parquet")
    assert read_from(spark, lake.root) is ReadFrom.SEGMENTS
    (put / "d.parquet").unlink()
    assert read_from(spark, lake.root) is ReadFrom.TABLES
    (put / "a.parquet").touch()
    assert read_from(spark, lake.root) is ReadFrom.SEGMENTS
    filled(spark, lake)
    (put / "b.parquet").unlink()
    assert read_from(spark, lake.root) is ReadFrom.SEGMENTS


def test_tables_of_some_days_or_with_a_strange_record_do_not_count(spark: SparkSession, lake: Lake) -> None:
    filled(spark, lake)
    record = Path(lake.tables) / RECORD
    whole, another = record.read_bytes(), b'"version": "9'
    for raw in (b"", b"{}", b"[1]", whole[:-1], whole.replace(b'"version": "', another)):
        record.write_bytes(raw)
        assert read_from(spark, lake.root) is ReadFrom.SEGMENTS
    record.write_bytes(whole)
    assert read_from(spark, lake.root) is ReadFrom.TABLES
    filled(spark, lake, last_day=date(2026, 1, 6))
    assert read_from(spark, lake.root) is ReadFrom.SEGMENTS


def test_a_stream_is_read_before_anything_else_and_gives_the_same_report(spark: SparkSession, lake: Lake) -> None:
    by_segments = reported(spark, lake.root)
    far = Lake(f"file://{lake.root}")
    running = start_stream(spark, far, Settings(), StreamOptions(once=True, buckets=2, is_published=False))
    running.await_end(threading.Event())
    by_stream = reported(spark, far.root)
    assert (by_stream[0], by_segments[0]) == (ReadFrom.STREAM, ReadFrom.SEGMENTS)
    assert by_stream[1] == by_segments[1]


def test_a_day_whose_last_fact_is_contradicted_is_gone_after_a_backfill(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.local_segments.mkdir()
    journal = Journal(writer(1))
    for day in range(2):
        journal.write(
            JournalKind.ARRIVED,
            message(day),
            NOON_MS + day * DAY_MS,
            session_tag=SessionTag(bytes(16)),
            sequence=day,
            payload_hash=sealed(day),
            code="new",
        )
    facts = records(journal.rows)
    write_segment(lake.local_segments / "a.parquet", facts)
    filled(spark, lake)
    write_segment(lake.local_segments / "b.parquet", [{**facts[1], "code": "replay"}])
    filled(spark, lake)
    for table in ("events", "arrivals"):
        assert [row["day"] for row in read_live(spark, lake, table).collect()] == [date(2026, 1, 5)]
