"""Tables that are updated by what is new equal those of all events at once, however they come (SPEC 13.2, 13.3)."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.publication import open_derived
from restante.fleet.jobs.publish import published
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.query import summaries
from restante.fleet.lake.upkeep import forget
from restante.fleet.tables.definitions import TABLES
from restante.model.ids import SessionTag
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from support.fleet.dataframes import tables_of
from support.fleet.incremental_lakes import COMPARED, plain, update
from support.fleet.journal_files import Journal, message, records, write_segment, writer
from support.fleet.troubled_fleet import DAY_MS, NOW_MS, troubled_fleet
from support.spec.clauses import clause


def old_journal() -> Journal:
    """A message of another day, which nothing comes after."""
    journal = Journal(writer(9))
    journal.write(JournalKind.ACCEPTED, message(90), NOW_MS - 40 * DAY_MS, message_kind=Kind.TEXT)
    journal.write(JournalKind.DELIVERED, message(90), NOW_MS - 40 * DAY_MS + 5)
    return journal


OLD = old_journal()
OLD_DAY = "2025-11-29"


def files_by_day(lake: Lake) -> dict[str | None, frozenset[str]]:
    live = open_derived(lake, TABLES["messages"]).live().values()
    return {day: frozenset(file.path for file in live if file.day == day) for day in {file.day for file in live}}


@clause("13.2", "13.3")
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12))])
def test_tables_updated_by_what_is_new_are_those_of_all_events(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """The second part has late events, the first events of a node among them, and a row that contradicts an event.

    A day of messages that it has no event of stays closed.
    """
    chance = random.Random(seed)  # noqa: S311 - the same cut again
    journals = troubled_fleet()
    parts: list[list[Any]] = [[], []]
    for journal in journals:
        for row in records(journal.rows):
            parts[chance.randrange(2)].append(row)
    contradicted = chance.choice(parts[0])
    lake = Lake(str(tmp_path))
    lake.local_segments.mkdir()
    closed: list[frozenset[str]] = []
    write_segment(lake.local_segments / "old.parquet", records(OLD.rows))
    for number, rows in enumerate(parts):
        write_segment(lake.local_segments / f"part-{number}.parquet", rows)
        if number:
            odd = {**contradicted, "at_ms": int(str(contradicted["at_ms"])) + DAY_MS}
            write_segment(lake.local_segments / "odd.parquet", [odd])
        assert update(spark, lake) == number + 1
        closed.append(files_by_day(lake)[OLD_DAY])
    assert closed[0] == closed[1]
    assert {one.batch for one in summaries(lake) if one.name in TABLES} == {2}
    tables = published(spark, lake, batch=2)
    assert tables is not None
    for journal in journals:
        journal.rows = [row for row in journal.rows if row.event_id != contradicted["event_id"]]
    with tables_of(spark, *journals, OLD, now_ms=NOW_MS) as expected:
        for table in COMPARED:
            assert plain(tables[table.name]) == plain(expected[table.name]), table.name
    forget(lake, OLD.writer)
    assert update(spark, lake, is_published=False) == 1  # from the segments that are left


@clause("13.2", "13.3")
def test_an_event_that_came_and_went_between_two_publications_is_in_no_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    lake.local_segments.mkdir()
    write_segment(lake.local_segments / "old.parquet", records(OLD.rows))
    update(spark, lake)
    journal = Journal(writer(8))
    journal.write(JournalKind.GAP_SKIPPED, None, NOW_MS, session_tag=SessionTag(bytes(16)), sequence=1, last_sequence=2)
    write_segment(lake.local_segments / "gap.parquet", records(journal.rows))
    update(spark, lake, is_published=False)
    write_segment(lake.local_segments / "odd.parquet", [{**row, "last_sequence": 3} for row in records(journal.rows)])
    n = update(spark, lake)
    tables = published(spark, lake, batch=n)
    assert tables is not None
    assert tables["gaps"].isEmpty()
