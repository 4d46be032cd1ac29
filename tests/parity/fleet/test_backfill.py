"""From a lake's segments, good and bad, to its tables; and journals made for it."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from restante.fleet.jobs.backfill import FIRST_DAY, LAST_DAY, Backfilled, backfill
from restante.fleet.jobs.generate import generate
from restante.fleet.kernels.arrivals_words import UNUSABLE
from restante.fleet.kernels.synthetic_fleet import Scenario
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.reading import read_live
from restante.fleet.lake.segments import find_segments, read_segments
from restante.fleet.lake.table_writer import open_base_table
from restante.fleet.transforms.synthetic import all_events
from restante.model.conservation_report import BadSegment
from restante.model.errors import ConfigurationInvalid
from restante.model.ids import PayloadHash, SessionTag
from restante.model.journal import JournalKind
from restante.policy.settings import Settings
from support.fleet.journal_files import SEGMENT, Journal, message, records, write_segment, writer
from support.spec.clauses import clause

DAY_MS = 86_400_000
NOON_MS = 1_767_614_400_000  # 2026-01-05 12:00 UTC
TAG = SessionTag(b"a session's tag.")
SETTINGS = Settings()


def arrive(journal: Journal, sequence: int, at_ms: int) -> None:
    journal.write(
        JournalKind.ARRIVED,
        message(sequence),
        at_ms,
        session_tag=TAG,
        sequence=sequence,
        payload_hash=PayloadHash(bytes([sequence]) * 32),
        code="new",
    )


def filled(spark: SparkSession, lake: Lake, first: date = FIRST_DAY, last: date = LAST_DAY) -> Backfilled:
    return backfill(
        spark, lake, SETTINGS, *find_segments(lake.local_segments), first_day=first, last_day=last, is_published=False
    )


def order(spark: SparkSession, lake: Lake) -> list[tuple[date, int, str, int]]:
    rows = read_live(spark, lake, "arrivals").orderBy("event_id").collect()
    return [(row["day"], row["sequence"], row["placement"], row["next_expected"]) for row in rows]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three days of one session, in segments that came in the wrong order and twice, and some that are none."""
    made = Lake(str(tmp_path))
    made.local_segments.mkdir()
    journal = Journal(writer(1))
    for place, sequence in enumerate((0, 2, 1, 3)):
        arrive(journal, sequence, NOON_MS + place * DAY_MS // 2)
    journal.write(JournalKind.ARRIVED, message(9), NOON_MS, session_tag=TAG, sequence=9)
    rows, put = records(journal.rows), made.local_segments
    write_segment(put / "a.parquet", rows[3:])
    write_segment(put / "b.parquet", rows[:3])
    write_segment(put / "b-again.parquet", [*rows[:3], {**rows[0], "kind": "sneezed"}])
    write_segment(put / "empty.parquet", [])
    (put / "cut.parquet").write_bytes((put / "a.parquet").read_bytes()[:-9])
    return made


@clause("13.2", "13.3")
def test_a_backfill_makes_the_tables_and_names_every_oddity(spark: SparkSession, lake: Lake) -> None:
    done = filled(spark, lake)
    assert done == Backfilled(
        segments=5,
        input_rows=9,
        events=5,
        duplicates=3,
        quarantined=1,
        bad_files=(BadSegment(name="cut.parquet", reason="not a whole Parquet file"),),
    )
    odd = read_live(spark, lake, "quarantine").collect()
    assert {(row["source_file"], row["reason"]) for row in odd} == {
        ("cut.parquet", "not a whole Parquet file"),
        ("b-again.parquet", "kind: must be a known word"),
        ("a.parquet", UNUSABLE),
    }
    assert read_live(spark, lake, "events").count() == 5
    # 2 came half a day before 1: it did not wait so long.
    whole = [
        (date(2026, 1, 5), 0, "released", 1),
        (date(2026, 1, 6), 2, "held", 1),
        (date(2026, 1, 6), 1, "late", 3),
        (date(2026, 1, 7), 3, "released", 4),
    ]
    assert order(spark, lake) == whole

    filled(spark, lake, first=date(2026, 1, 6), last=date(2026, 1, 6))
    assert order(spark, lake) == whole


def test_events_that_came_once_are_written_as_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """By the pass that validates them. Where an event came twice, what that pass wrote is deleted."""
    lake = Lake(str(tmp_path))
    lake.local_segments.mkdir()
    journal = Journal(writer(1))
    for place in range(6):
        arrive(journal, place, NOON_MS + place * DAY_MS // 2)
    rows = records(journal.rows)
    write_segment(lake.local_segments / "a.parquet", [*rows[:3], {**rows[3], "kind": "sneezed"}])
    write_segment(lake.local_segments / "b.parquet", rows[4:])
    done = filled(spark, lake)
    assert (done.events, done.duplicates, done.quarantined) == (5, 0, 1)
    read = read_segments(spark, find_segments(lake.local_segments)[0]).filter("kind != 'sneezed'")
    table = read_live(spark, lake, "events")
    assert table.drop("day").exceptAll(read).isEmpty()
    assert read.exceptAll(table.drop("day")).isEmpty()
    midnight_ms = NOON_MS - DAY_MS // 2
    days = {(row["at_ms"] - midnight_ms) // DAY_MS: str(row["day"]) for row in table.collect()}
    assert days == {0: "2026-01-05", 1: "2026-01-06", 2: "2026-01-07", 3: "2026-01-08"}
    before = set((tmp_path / "tables" / "events").rglob("*.parquet"))
    write_segment(lake.local_segments / "c.parquet", rows[:1])
    assert filled(spark, lake).duplicates == 1
    live = open_base_table(lake, "events").live()
    there = set((tmp_path / "tables" / "events").rglob("*.parquet")) - before
    assert {path.relative_to(tmp_path / "tables" / "events").as_posix() for path in there} == set(live)


def test_days_that_are_not_asked_for_are_not_written(spark: SparkSession, lake: Lake) -> None:
    filled(spark, lake, first=date(2026, 1, 7), last=date(2026, 1, 7))
    assert order(spark, lake) == [(date(2026, 1, 7), 3, "released", 4)]


def test_a_segment_of_another_version_is_named_and_left_out(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([], schema=SEGMENT.with_metadata({"restante.schema_version": "2"}))
    parquet.write_table(table, tmp_path / "new.parquet")
    assert find_segments(tmp_path) == (
        [],
        [BadSegment(name="new.parquet", reason="schema version 2, and this reads version 1")],
    )


@clause("13.2")
def test_synthetic_journals_are_facts_whose_arrivals_are_as_they_say(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    scenario = Scenario(
        messages=600, sessions=6, clients=3, nodes=2, duplicates=0.1, reordered=0.1, lost=0.02, collisions=0.05
    )
    generate(spark, lake, scenario)
    done = filled(spark, lake)
    assert (done.quarantined, done.duplicates, done.bad_files) == (0, 0, ())
    table = read_live(spark, lake, "arrivals")
    assert table.filter("verdict != recipient_verdict").count() == 0
    arrived = table.filter("event = 'arrived'")
    counts = {row["verdict"]: row["count"] for row in arrived.groupBy("verdict").count().collect()}
    assert counts.keys() == {"new", "duplicate", "collision"}
    assert 560 < counts["new"] < 600
    with pytest.raises(ConfigurationInvalid, match="is there already"):
        generate(spark, lake, scenario)


def test_the_same_seed_makes_the_same_journals(spark: SparkSession) -> None:
    one, again, other = (
        all_events(spark, Scenario(messages=20, sessions=2, seed=seed)).orderBy("event_id").collect()
        for seed in (1, 1, 2)
    )
    assert one == again
    assert {row["event_id"] for row in one}.isdisjoint(row["event_id"] for row in other)
