"""The first publication of a stream takes all events that are there, in tasks of bounded size."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.publication import open_derived
from restante.fleet.lake.layout import Lake
from restante.fleet.spark import map_in_arrow
from restante.fleet.tables.definitions import TABLES
from support.fleet.incremental_lakes import update
from support.fleet.journal_files import records, write_segment
from support.fleet.troubled_fleet import troubled_fleet
from support.spec.clauses import clause

ROWS_PER_TASK = 20


@clause("13.2")
def test_no_task_takes_more_events_than_a_kernel_may_however_many_there_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task writes one file a day. A quarter of a hundred million events took 10 GB in one Python process."""
    monkeypatch.setattr(map_in_arrow, "ROWS_PER_PARTITION", ROWS_PER_TASK)
    lake = Lake(str(tmp_path))
    lake.local_segments.mkdir()
    rows = [row for journal in troubled_fleet() for row in records(journal.rows)]
    write_segment(lake.local_segments / "all.parquet", rows)
    update(spark, lake)
    live = open_derived(lake, TABLES["messages"]).live().values()
    days = {file.day for file in live}
    most = max(sum(file.day == day for file in live) for day in days)
    assert most > len(rows) // ROWS_PER_TASK // 2
    assert most > spark.sparkContext.defaultParallelism
