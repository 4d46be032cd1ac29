"""How a session behaves in the process that opened it. What it leaves behind is looked at in tests/acceptance."""

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from restante.fleet.spark.session import WORKER_MEMORY, open_session
from restante.model.errors import LocalProtocolError


def test_a_second_session_in_one_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(LocalProtocolError, match="open in this process already"), open_session(app_name="second"):
        pass
    assert spark.range(3).count() == 3


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
