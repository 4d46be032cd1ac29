"""How a session behaves in the process that opened it. What it leaves behind is looked at in tests/acceptance."""

import pytest
from pyspark.sql import SparkSession

from restante.fleet.session import open_session
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
