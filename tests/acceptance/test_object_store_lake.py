"""A lake on an object store gives the tables and reports of one on a disk, without Hadoop's packages."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from restante.fleet.jobs.retention import retain
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.new_files import list_files
from restante.fleet.lake.query import open_all
from restante.policy.settings import Settings
from support.fleet import lake_process
from support.fleet.incremental_lakes import update
from support.fleet.journal_files import records, write_segment
from support.fleet.moto_s3 import MotoS3, moto_s3
from support.fleet.old_fleet import DAYS, FIRST_DAY, TODAY, fleet_with_past
from support.fleet.small_spark import FEW_TASKS, quick_environ
from support.fleet.spark_clusters import LIMIT_S
from support.fleet.stream_lakes import ship, tables
from support.relay.node_processes import restante
from support.spec.clauses import clause
from support.system.programs import command

TIMES = ("made_at_ms", "at_ms")
"""Columns of the stream's own tables that differ between two runs."""


@pytest.fixture(scope="module")
def store() -> Iterator[MotoS3]:
    with moto_s3() as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environ.items():
            patch.setenv(name, value)
        yield started


def jobs(*words: str, master: str = "local[2]", environ: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """What each job says."""
    done = subprocess.run(
        [*command(lake_process), master, *words],
        env=environ or (os.environ | quick_environ(FEW_TASKS)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def spark_there(spark: SparkSession, store: MotoS3) -> Iterator[SparkSession]:
    """The session of the tests; its Python processes reach the store."""
    environ = spark.sparkContext.environment
    environ.update(store.environ)
    yield spark
    for name in store.environ:
        del environ[name]


@clause("13.2", "13.9")
def test_a_stream_on_an_object_store_makes_the_tables_of_one_on_a_disk(
    spark_there: SparkSession, tmp_path: Path, store: MotoS3
) -> None:
    ship(tmp_path / "lake" / "segments")
    store.upload(tmp_path / "lake" / "segments", "sample/segments")
    here, there = str(tmp_path / "lake"), store.address("sample")
    streamed = [lake_process.run(spark_there, "stream", lake) for lake in (here, there)]
    assert streamed[0] == streamed[1] == {"batches": 3, "rows": 167}
    assert tables(there) == tables(here)
    said = restante("fleet", "query", "--lake", there, "select count(*) as n from events", "--json")
    assert json.loads(said.stdout) == [{"n": tables(here)["counts"][0]}]


@pytest.mark.soak
@clause("13.2", "13.3")
def test_every_table_of_backfill_and_stream_on_an_object_store_equals_that_on_a_disk(
    tmp_path: Path, store: MotoS3
) -> None:
    ship(tmp_path / "a" / "segments")
    ship(tmp_path / "b" / "segments")
    for name in ("a", "b"):
        store.upload(tmp_path / name / "segments", f"all-{name}/segments")
    jobs("published-stream", str(tmp_path / "a"), "backfill", str(tmp_path / "b"))
    done = jobs(
        *("published-stream", store.address("all-a"), "backfill", store.address("all-b")),
        *("report", store.address("all-a"), "report", store.address("all-b")),
    )
    assert [one["read_from"] for one in done[2:]] == ["stream", "tables"]
    assert done[2]["total"] == done[3]["total"]
    for name in ("a", "b"):
        assert published(store.address(f"all-{name}")) == published(str(tmp_path / name))
    assert published(store.address("all-a")).keys() == published(store.address("all-b")).keys()


@pytest.mark.soak
@clause("13.3")
def test_retention_on_an_object_store_deletes_the_files_of_old_days(
    spark: SparkSession, tmp_path: Path, store: MotoS3
) -> None:
    """The lake is made on a disk and copied: names in its tables are relative."""
    here, there = Lake(str(tmp_path)), Lake(store.address("retained"))
    here.local_segments.mkdir()
    rows = [row for journal in fleet_with_past() for row in records(journal.rows)]
    write_segment(here.local_segments / "all.parquet", rows)
    update(spark, here)
    store.upload(tmp_path, "retained")
    done = [retain(lake, Settings(), days=DAYS, today=TODAY) for lake in (here, there)]
    assert done[0] == done[1]
    assert done[0][0].rows_deleted > 0
    assert published(there.root) == published(here.root)
    for name in ("events", "arrivals"):
        assert min(day for day in list_files(there.table(name)) if day.startswith("day=")) >= f"day={FIRST_DAY}"


def published(root: str) -> dict[str, list[str]]:
    """The rows of all published tables, without the times at which they were made."""
    found = {}
    for name, table in open_all(Lake(root)).items():
        if not name.startswith("stream_"):
            found[name] = sorted(str(sorted(row.items(), key=str)) for row in rows_of(table))
    return found


def rows_of(table: DeltaTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def test_a_store_that_does_not_answer_is_named_in_one_line(store: MotoS3) -> None:
    del store
    done = restante("fleet", "query", "--lake", "s3://no-such-bucket/lake", "select 1", status=1)
    assert done.stderr.startswith("error E")
    assert "Traceback" not in done.stderr
