"""How a session behaves in the process that opened it. What it leaves behind is looked at in tests/acceptance."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from restante.fleet import StreamOptions, report, start_stream
from restante.fleet.spark import java_exit_files
from restante.fleet.spark.java_exit_files import forget_exit_files
from restante.fleet.spark.session import WORKER_MEMORY, open_session
from restante.model.journal import JournalKind
from support.fleet.journal_files import Journal, message, records, write_segment, writer


def test_a_session_that_is_there_is_used_and_stays_open(spark: SparkSession) -> None:
    with open_session(app_name="second", master="spark://nowhere:1") as same:
        assert same.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3


def test_programs_use_the_pipeline_in_their_own_session(spark: SparkSession, tmp_path: Path) -> None:
    journal = Journal(writer(1))
    journal.write(JournalKind.ACCEPTED, message(1), 1_767_614_400_000)
    (tmp_path / "segments").mkdir()
    write_segment(tmp_path / "segments" / "a.parquet", records(journal.rows))
    options = StreamOptions(once=True, buckets=1, is_published=False)
    assert start_stream(spark, str(tmp_path), options=options).await_end().counts.events == 1
    assert report(spark, str(tmp_path)).conservation.total.accepted == 1


def test_a_local_session_listens_on_loopback_only_and_shows_no_pages(spark: SparkSession) -> None:
    context = spark.sparkContext
    assert context.uiWebUrl is None
    assert context.getConf().get("spark.driver.host") == "127.0.0.1"
    assert context.getConf().get("spark.driver.bindAddress") == "127.0.0.1"


def test_a_session_counts_time_in_utc(spark: SparkSession) -> None:
    [row] = spark.sql("select date_format(timestamp_millis(0), 'yyyy-MM-dd HH:mm') as epoch").collect()
    assert row["epoch"] == "1970-01-01 00:00"


def test_python_workers_keep_the_memory_they_have_used(spark: SparkSession) -> None:
    def look(_batches: Iterator[Any]) -> Iterator[Any]:
        told = [pa.default_memory_pool().backend_name, *(os.environ.get(name, "") for name in WORKER_MEMORY)]
        yield pa.RecordBatch.from_pydict({"told": told})

    [*told] = spark.range(0, 1, 1, 1).mapInArrow(look, "told string").collect()
    assert [row["told"] for row in told] == ["system", *WORKER_MEMORY.values()]


def test_a_stream_leaves_no_list_of_its_sockets_in_java(spark: SparkSession, tmp_path: Path) -> None:
    """Java would keep the name of one for each result that was ever read."""
    (tmp_path / "segments").mkdir()
    journal = Journal(writer(1))
    journal.write(JournalKind.ACCEPTED, message(1), 1_767_614_400_000)
    write_segment(tmp_path / "segments" / "a.parquet", records(journal.rows))
    for _ in range(20):
        spark.range(1).collect()
    assert len(exit_files(spark)) > 20
    options = StreamOptions(once=True, buckets=1, is_published=False)
    start_stream(spark, str(tmp_path), options=options).await_end()
    assert len(exit_files(spark)) < 5  # those of the query's end


def test_files_that_java_would_delete_are_forgotten_only_where_the_session_deletes_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.range(1).collect()
    before = len(exit_files(spark))
    monkeypatch.setattr(java_exit_files, "SCRATCH_PREFIX", "of-somebody-else")
    forget_exit_files(spark)
    assert len(exit_files(spark)) == before > 0


def exit_files(spark: SparkSession) -> list[str]:
    """What Java deletes when it ends."""
    jvm: Any = spark.sparkContext._jvm
    field = jvm.java.lang.Class.forName("java.io.DeleteOnExitHook").getDeclaredField("files")
    field.setAccessible(True)
    return list(field.get(None))
