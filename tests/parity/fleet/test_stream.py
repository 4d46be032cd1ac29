"""The stream's tables are those of a backfill of the same segments, whatever came when, and survive every end."""

import shutil
import threading
from collections import Counter
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
from restante.fleet.jobs.micro_batch import MicroBatches, MicroBatchResult
from restante.fleet.jobs.stream import Streamed, StreamOptions, start_stream
from restante.fleet.lake.delta import ConcurrentWriter
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.reading import read_live, rows_with_verdicts, segments_read
from restante.fleet.lake.segments import find_segments
from restante.fleet.stream.batches import Catalog, last_catalog, open_batches
from restante.fleet.stream.source import Planner
from restante.model.errors import ConfigurationInvalid, StoreUnusable
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


def streamed(spark: SparkSession, lake: Lake, **options: Any) -> tuple[Streamed, list[MicroBatchResult]]:
    """The query takes all there is, in batches of three files."""
    done: list[MicroBatchResult] = []
    chosen = StreamOptions(once=True, buckets=2, is_published=False, **options)
    running = start_stream(spark, lake, SETTINGS, chosen, on_batch=done.append)
    return running.await_end(threading.Event()), done


def catalog_of(lake: Lake) -> Catalog:
    found = last_catalog(open_batches(lake))
    assert found is not None
    return found


def rows_of(table: DataFrame) -> Counter[str]:
    """Which of its copies an event is taken from depends on what came first."""
    kept = table.drop("source_file") if "reason" not in table.columns else table
    return Counter(str(row.asDict(recursive=True)) for row in kept.collect())


def tables_of(spark: SparkSession, lake: Lake) -> dict[str, Counter[str]]:
    return {name: rows_of(read_live(spark, lake, name)) for name in TABLES}


def backfilled(spark: SparkSession, lake: Lake) -> dict[str, Counter[str]]:
    other = Lake(lake.root + "-again")
    backfill(spark, other, SETTINGS, *find_segments(lake.local_segments), is_published=False)
    return tables_of(spark, other)


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
    for part in range(3):
        for number, split in parts.items():
            write_segment(lake.local_segments / f"{number}-{part}.parquet", split[part])
        streamed(spark, lake)
    assert catalog_of(lake).counts.late > 0
    assert catalog_of(lake).counts.duplicates > 0
    assert tables_of(spark, lake) == backfilled(spark, lake)
    judged = read_live(spark, lake, "arrivals").select("event_id", "verdict", "next_expected").collect()
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
    streamed(spark, lake)
    # Shipped late, twice and with one contradiction; and a file that was cut is whole at last.
    write_segment(put / "a.parquet", facts[3:14])
    write_segment(put / "b.parquet", [{**facts[4], "code": "duplicate"}])
    shutil.copy(put / "c.parquet", put / "nothing.parquet")
    done, _ = streamed(spark, lake)
    assert done.counts.retracted == 3  # an hour between two clocks contradicts two facts, file b the third
    assert tables_of(spark, lake) == backfilled(spark, lake)
    assert {one.name for one in done.bad_files} == {"cut.parquet", "folder.parquet", "newer.parquet", "types.parquet"}
    assert streamed(spark, lake)[1] == []


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
    streamed(spark, lake)
    assert [one.rows_taken for one in catalog_of(lake).rejected] == [200]
    assert tables_of(spark, lake) == backfilled(spark, lake)
    path.write_bytes(whole)
    done, _ = streamed(spark, lake)
    assert done.bad_files == ()
    assert (done.counts.events, done.counts.duplicates, done.counts.quarantined) == (300, 0, 1)
    assert tables_of(spark, lake) == backfilled(spark, lake)


@clause("13.2")
def test_the_query_takes_all_there_is_in_batches_and_goes_on_without_its_checkpoint(
    spark: SparkSession, lake: Lake
) -> None:
    journal = Journal(writer(1))
    mail(journal, 40)
    facts = records(journal.rows)
    write_segment(lake.local_segments / "b [1].parquet", facts[60:])
    done, batches = streamed(spark, lake)
    assert ([batch.rows for batch in batches], done.n) == ([60], 1)
    shutil.rmtree(Path(lake.root) / "stream" / "checkpoint")
    write_segment(lake.local_segments / "a.parquet", facts[:70])
    write_segment(lake.local_segments / "c.parquet", facts[:1])
    done, batches = streamed(spark, lake, files_per_batch=1)
    assert [(batch.n, batch.rows) for batch in batches] == [(2, 70), (3, 1)]
    assert (done.counts.events, done.counts.duplicates) == (120, 11)
    assert tables_of(spark, lake) == backfilled(spark, lake)
    assert streamed(spark, lake)[1] == []


@clause("13.9")
def test_a_stale_checkpoint_repeats_no_batch(spark: SparkSession, lake: Lake) -> None:
    journal = Journal(writer(1))
    mail(journal, 10)
    facts = records(journal.rows)
    write_segment(lake.local_segments / "a.parquet", facts[:9])
    streamed(spark, lake)
    checkpoint = Path(lake.root) / "stream" / "checkpoint"
    shutil.copytree(checkpoint, f"{lake.root}-old")
    for name, first in (("b", 9), ("c", 18)):
        write_segment(lake.local_segments / f"{name}.parquet", facts[first : first + 9])
        streamed(spark, lake)
    shutil.rmtree(checkpoint)
    shutil.copytree(f"{lake.root}-old", checkpoint)
    write_segment(lake.local_segments / "d.parquet", facts[27:])
    done, batches = streamed(spark, lake)
    assert [(batch.n, batch.rows) for batch in batches] == [(4, 3)]
    assert done.counts.events == 30
    assert tables_of(spark, lake) == backfilled(spark, lake)


def test_a_report_from_the_stream_is_that_of_its_segments(spark: SparkSession, lake: Lake) -> None:
    journal = Journal(writer(1))
    mail(journal, 6)
    put_odd_files(lake.local_segments, records(journal.rows))
    streamed(spark, lake)
    catalog = catalog_of(lake)
    found = segments_read(lake, catalog)
    from_stream = make_report(spark, *found, rows=counted(rows_with_verdicts(spark, lake, catalog)))
    assert from_stream == make_report(spark, *find_segments(lake.local_segments))


def test_a_full_disk_is_named_and_nothing_is_committed(spark: SparkSession, lake: Lake) -> None:
    journal = Journal(writer(1))
    mail(journal, 1)
    write_segment(lake.local_segments / "a.parquet", records(journal.rows))
    streamed(spark, lake)
    mail(journal, 1, first=1)
    write_segment(lake.local_segments / "b.parquet", records(journal.rows)[3:])
    work = MicroBatches(spark, lake, SETTINGS)
    Planner(lake).plan_next(None, files=9, size_bytes=10**9)
    with no_file_longer_than(16), pytest.raises(StoreUnusable, match=r"no space left|cannot be written"):
        work.run(2)
    assert catalog_of(lake).number == 1
    done, batches = streamed(spark, lake)
    assert ([batch.rows for batch in batches], done.counts.events) == ([3], 6)


def test_a_second_driver_is_named_and_commits_nothing(spark: SparkSession, lake: Lake) -> None:
    journal = Journal(writer(1))
    mail(journal, 1)
    write_segment(lake.local_segments / "a.parquet", records(journal.rows))
    first, second = MicroBatches(spark, lake, SETTINGS, buckets=2), MicroBatches(spark, lake, SETTINGS, buckets=2)
    Planner(lake).plan_next(None, files=9, size_bytes=10**9)
    assert first.run(1) is not None
    with pytest.raises(ConcurrentWriter, match="another 'restante fleet stream'"):
        second.run(1)
    assert tables_of(spark, lake) == backfilled(spark, lake)


def test_a_stream_does_not_write_beside_the_tables_of_a_backfill_nor_the_other_way(
    spark: SparkSession, lake: Lake
) -> None:
    journal = Journal(writer(1))
    mail(journal, 1)
    write_segment(lake.local_segments / "a.parquet", records(journal.rows))
    backfill(spark, lake, SETTINGS, *find_segments(lake.local_segments), is_published=False)
    with pytest.raises(ConfigurationInvalid, match="--reset"):
        streamed(spark, lake)
    backfill(spark, lake, SETTINGS, *find_segments(lake.local_segments), is_published=False)
    streamed(spark, lake, reset=True)
    with pytest.raises(ConfigurationInvalid, match="a stream keeps the tables"):
        backfill(spark, lake, SETTINGS, *find_segments(lake.local_segments), is_published=False)
