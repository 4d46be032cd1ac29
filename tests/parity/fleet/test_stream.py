"""The stream's tables are those of a backfill of the same segments, whatever came when, and survive every end."""

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from restante.fleet.jobs.backfill import backfill
from restante.fleet.jobs.conservation_report import counted, make_report
from restante.fleet.jobs.stream import StepDone, Stream
from restante.fleet.jobs.stream_run import RunOptions, follow
from restante.fleet.jobs.stream_tables import (
    stream_arrivals,
    stream_events,
    stream_judged,
    stream_quarantine,
    stream_segments,
    write_tables,
)
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.segments import find_segments
from restante.fleet.lake.table_writer import with_day
from restante.model.errors import StoreUnusable
from restante.model.ids import SessionTag
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.policy.settings import Settings
from support.fleet.arrival_traces import TRACES, Told, TraceFact, by_the_core, moments
from support.fleet.journal_files import SEGMENT, Journal, Record, message, records, sealed, write_segment, writer
from support.fleet.trace_journals import write_fact
from support.spec.clauses import clause
from support.system.full_disk import no_file_longer_than

SETTINGS = Settings()
NOON_MS = 1_767_614_400_000
HOUR_MS = 3_600_000
TABLES = ("events", "arrivals", "quarantine")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(str(tmp_path / "lake"))
    made.local_segments.mkdir(parents=True)
    return made


def steps(stream: Stream) -> list[StepDone]:
    found = []
    while (done := stream.step()) is not None:
        found.append(done)
    return found


def rows_of(table: DataFrame) -> Counter[str]:
    return Counter(str(row.asDict(recursive=True)) for row in table.collect())


def streamed(spark: SparkSession, lake: Lake) -> dict[str, Counter[str]]:
    """What the stream's latest commit says."""
    stream = Stream(spark, lake, SETTINGS)
    made = (lake.local_stream, stream.commit)
    return {
        "events": rows_of(with_day(stream_events(spark, *made))),
        "arrivals": rows_of(with_day(stream_arrivals(spark, *made))),
        "quarantine": rows_of(stream_quarantine(spark, *made)),
    }


def backfilled(spark: SparkSession, lake: Lake, tables: Sequence[str] = TABLES) -> dict[str, Counter[str]]:
    other = Lake(lake.root + "-again")
    backfill(spark, other, SETTINGS, *find_segments(lake.local_segments))
    return {name: rows_of(spark.read.parquet(other.table(name))) for name in tables}


def mail(journal: Journal, count: int, first: int = 0) -> None:
    """Messages that were accepted and delivered, and arrived."""
    for number in range(first, first + count):
        at_ms = NOON_MS + number * HOUR_MS
        journal.write(JournalKind.ACCEPTED, message(number), at_ms, message_kind=Kind.TEXT, payload_hash=sealed(number))
        journal.write(
            JournalKind.ARRIVED,
            message(number),
            at_ms + 10,
            session_tag=SessionTag(bytes(16)),
            sequence=number,
            payload_hash=sealed(number),
            code="new",
        )
        journal.write(JournalKind.DELIVERED, message(number), at_ms + 20)


@clause("13.2", "13.7")
def test_any_traces_shipped_in_any_order_make_the_tables_of_a_backfill_and_of_the_core(
    spark: SparkSession, lake: Lake
) -> None:
    """Files of all examples go in together, in as many steps as an example has parts."""
    parts: dict[int, list[list[Record]]] = {}
    expected: dict[bytes, Told] = {}

    @settings(max_examples=25, database=None)
    @given(TRACES, st.lists(st.integers(0, 2), min_size=7, max_size=41), st.lists(st.integers(0, 2), max_size=5))
    def collect(trace: list[TraceFact], step_of: list[int], again: list[int]) -> None:
        number = len(parts) + 1
        journal = Journal(writer(number))
        for fact, at_ms, told in zip(trace, moments(trace), by_the_core(trace), strict=True):
            tag = SessionTag(number.to_bytes(8, "big") + bytes([fact.session]) * 8)
            expected[write_fact(journal, fact, at_ms, tag)] = told
        facts = records(journal.rows)
        split = [[fact for fact, step in zip(facts, cycle(step_of), strict=False) if step == part] for part in range(3)]
        for place, part in enumerate(again):
            split[part] += facts[place : place + 5]
        parts[number] = split

    collect()
    stream = Stream(spark, lake, SETTINGS, buckets=2)
    for part in range(3):
        for number, split in parts.items():
            write_segment(lake.local_segments / f"{number}-{part}.parquet", split[part])
        steps(stream)
    assert stream.commit.counts.late > 0
    assert stream.commit.counts.duplicates > 0
    tables = streamed(spark, lake)
    assert tables == backfilled(spark, lake)
    judged = (
        stream_arrivals(spark, lake.local_stream, stream.commit)
        .select("event_id", "verdict", "next_expected")
        .collect()
    )
    assert {bytes(row[0]): (row[1], row[2]) for row in judged} == {
        event: (told.verdict, told.expected) for event, told in expected.items()
    }


def put_odd_files(put: Path, facts: list[Record]) -> None:
    """Everything that can be wrong with a file or a row."""
    whole = write_segment(put / "c.parquet", facts[:12])
    (put / "cut.parquet").write_bytes(whole.read_bytes()[:-20])
    (put / "nothing.parquet").touch()
    (put / "folder.parquet").mkdir()
    write_segment(put / "empty.parquet", [])
    newer = pa.Table.from_pylist([dict(facts[0])], schema=SEGMENT.with_metadata({"restante.schema_version": "2"}))
    parquet.write_table(newer, put / "newer.parquet")
    words = pa.Table.from_pylist([dict(fact) for fact in facts], schema=SEGMENT)
    place = SEGMENT.get_field_index("at_ms")
    parquet.write_table(words.set_column(place, "at_ms", words["at_ms"].cast(pa.string())), put / "types.parquet")
    slow = [{**fact, "at_ms": int(str(fact["at_ms"])) - HOUR_MS} for fact in facts[12:15]]
    write_segment(put / "slow_clock.parquet", slow)
    write_segment(put / "broken_rows.parquet", [*facts[15:], {**facts[0], "kind": "sneezed"}])


@clause("13.2")
def test_odd_files_and_rows_go_to_quarantine_as_in_a_backfill_and_the_stream_goes_on(
    spark: SparkSession, lake: Lake
) -> None:
    journal = Journal(writer(1))
    mail(journal, 6)
    facts, put = records(journal.rows), lake.local_segments
    put_odd_files(put, facts)
    stream = Stream(spark, lake, SETTINGS, buckets=2)
    steps(stream)
    # Shipped late, twice and with one contradiction; and a file that was cut is whole at last.
    write_segment(put / "a.parquet", facts[3:14])
    write_segment(put / "b.parquet", [{**facts[4], "code": "duplicate"}])
    shutil.copy(put / "c.parquet", put / "nothing.parquet")
    steps(stream)
    assert stream.commit.counts.revoked == 3  # an hour between two clocks contradicts two facts, file b the third
    assert streamed(spark, lake) == backfilled(spark, lake)
    assert {one.name for one in stream.commit.odd_files} == {
        "cut.parquet",
        "folder.parquet",
        "newer.parquet",
        "types.parquet",
    }
    assert steps(stream) == []


def test_a_damaged_file_that_is_replaced_by_a_whole_one_counts_once(spark: SparkSession, lake: Lake) -> None:
    journal = Journal(writer(1))
    mail(journal, 100)
    rows = [*records(journal.rows), {**records(journal.rows)[0], "kind": "sneezed"}]
    path = write_segment(lake.local_segments / "a.parquet", rows, row_group_size=100, write_page_checksum=True)
    whole = path.read_bytes()
    with parquet.ParquetFile(path) as file:
        column = file.metadata.row_group(2).column(0)
    at = column.dictionary_page_offset + column.total_compressed_size // 2
    path.write_bytes(whole[:at] + bytes(8) + whole[at + 8 :])
    stream = Stream(spark, lake, SETTINGS, buckets=2)
    steps(stream)
    assert [one.rows_taken for one in stream.commit.odd_files] == [200]
    assert streamed(spark, lake) == backfilled(spark, lake)
    path.write_bytes(whole)
    steps(stream)
    assert stream.commit.odd_files == ()
    assert (stream.commit.counts.events, stream.commit.counts.duplicates, stream.commit.counts.quarantined) == (
        300,
        0,
        1,
    )
    assert streamed(spark, lake) == backfilled(spark, lake)


def followed(spark: SparkSession, lake: Lake, on_step: Callable[[StepDone], None] = lambda _: None) -> Any:
    return follow(spark, lake, SETTINGS, RunOptions(once=True, buckets=2), stop=threading.Event(), on_step=on_step)


@clause("13.2")
def test_the_query_takes_all_there_is_and_the_copy_for_others_is_that_of_a_backfill(
    spark: SparkSession, lake: Lake
) -> None:
    journal = Journal(writer(1))
    mail(journal, 40)
    facts = records(journal.rows)
    write_segment(lake.local_segments / "b [1].parquet", facts[60:])
    told: list[StepDone] = []
    assert followed(spark, lake, told.append).rows == 60
    write_segment(lake.local_segments / "a.parquet", facts[:70])
    done = followed(spark, lake, told.append)
    assert (done.steps, done.counts.events, done.counts.duplicates) == (1, 120, 10)
    assert [step.rows for step in told] == [60, 70]
    copy = {name: rows_of(spark.read.parquet(lake.table(name))) for name in TABLES}
    assert copy == streamed(spark, lake) == backfilled(spark, lake)
    assert followed(spark, lake).steps == 0


def test_a_day_whose_only_fact_is_contradicted_vanishes_from_the_copy(spark: SparkSession, lake: Lake) -> None:
    journal = Journal(writer(1))
    for day in range(2):
        journal.write(JournalKind.ACCEPTED, message(day), NOON_MS + day * 24 * HOUR_MS)
    facts = records(journal.rows)
    write_segment(lake.local_segments / "a.parquet", facts)
    stream = Stream(spark, lake, SETTINGS, buckets=1)
    steps(stream)
    write_tables(spark, lake, stream.commit)
    stream.note_written()
    write_segment(lake.local_segments / "b.parquet", [{**facts[1], "code": "x"}])
    steps(stream)
    write_tables(spark, lake, stream.commit)
    assert rows_of(spark.read.parquet(lake.table("events"))) == backfilled(spark, lake, ["events"])["events"]


def test_a_report_from_the_stream_is_that_of_its_segments(spark: SparkSession, lake: Lake) -> None:
    journal = Journal(writer(1))
    mail(journal, 6)
    put_odd_files(lake.local_segments, records(journal.rows))
    stream = Stream(spark, lake, SETTINGS, buckets=2)
    steps(stream)
    judged = stream_judged(spark, lake.local_stream, stream.commit)
    found = stream_segments(lake.local_stream, stream.commit)
    from_stream = make_report(spark, *found, rows=counted(judged))
    assert from_stream == make_report(spark, *find_segments(lake.local_segments))


def test_a_full_disk_is_named_and_nothing_is_committed(spark: SparkSession, lake: Lake) -> None:
    journal = Journal(writer(1))
    mail(journal, 1)
    write_segment(lake.local_segments / "a.parquet", records(journal.rows))
    stream = Stream(spark, lake, SETTINGS, buckets=1)
    with no_file_longer_than(16), pytest.raises(StoreUnusable, match="no room is left"):
        stream.step()
    assert streamed(spark, lake)["events"] == Counter()
    assert [done.rows for done in steps(stream)] == [3]
