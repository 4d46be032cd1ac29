"""However events are cut into batches and however late they come, tables updated by them are those of one backfill.

`make test` has one such cut in test_incremental; these take minutes.
"""

import tempfile
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from restante.fleet.jobs.backfill import backfill
from restante.fleet.jobs.publish import published
from restante.fleet.kernels.synthetic_fleet import Scenario
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.segment_discovery import found_in
from restante.policy.settings import Settings
from support.fleet.incremental_lakes import COMPARED, generated_journals, plain, update
from support.fleet.journal_files import records, write_segment
from support.fleet.troubled_fleet import NOON_MS, NOW_MS, troubled_fleet
from support.spec.clauses import clause

DAY_MS = 86_400_000
FLEET = Scenario(
    messages=16,
    sessions=3,
    clients=3,
    nodes=4,
    days=3,
    start_ms=NOON_MS - DAY_MS // 2,
    lost=0.2,
    liars=0.25,
    skewed=0.3,
)
JOURNALS = [*troubled_fleet(), *generated_journals(FLEET)]
ROWS = [row for journal in JOURNALS for row in records(journal.rows)]
MISSING = 7  # an event that never comes, in the middle of the first writer's
PARTS = 3
CUTS = st.lists(st.integers(0, PARTS - 1), min_size=len(ROWS), max_size=len(ROWS))
EVERY_OTHER = [place % 2 for place in range(len(ROWS))]
LAST_FIRST = [0 if place > len(ROWS) // 3 else 1 for place in range(len(ROWS))]


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    lake = Lake(str(tmp_path_factory.mktemp("whole")))
    lake.local_segments.mkdir()
    write_segment(lake.local_segments / "all.parquet", [row for at, row in enumerate(ROWS) if at != MISSING])
    found = found_in(lake.segments)
    backfill(spark, lake, Settings(), found.segments, found.bad, now_ms=NOW_MS)
    tables = published(spark, lake, batch=0)
    assert tables is not None
    return {table.name: plain(tables[table.name]) for table in COMPARED}


def check(spark: SparkSession, cut: list[int], expected: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        lake, last = Lake(directory), 0
        lake.local_segments.mkdir()
        for part in range(PARTS):
            rows = [
                row for at, (row, where) in enumerate(zip(ROWS, cut, strict=True)) if where == part and at != MISSING
            ]
            if rows:
                write_segment(lake.local_segments / f"part-{part}.parquet", rows)
                last = update(spark, lake)
        tables = published(spark, lake, batch=last)
        assert tables is not None
        for table in COMPARED:
            assert plain(tables[table.name]) == expected[table.name], table.name


@pytest.mark.soak
@clause("13.2", "13.3")
def test_tables_of_drawn_cuts_are_those_of_one_backfill(spark: SparkSession, expected: dict[str, Any]) -> None:
    assert all(expected[name] for name in ("withholding", "missing_events", "in_flight", "dead_letters"))

    @settings(max_examples=25, deadline=None, database=None, phases=(Phase.explicit, Phase.generate))
    @example(EVERY_OTHER)
    @example(LAST_FIRST)
    @given(CUTS)
    def cut_anyhow(cut: list[int]) -> None:
        check(spark, cut, expected)

    cut_anyhow()
