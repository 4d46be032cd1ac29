"""One Spark for all parity tests: starting it costs more than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from restante.fleet.spark.session import open_session
from support.fleet.small_spark import NO_CODE_PER_PLAN, SHORT_LIFE


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", SHORT_LIFE)
        with open_session(app_name="restante tests", master="local[2]") as session:
            session.conf.set("spark.sql.shuffle.partitions", "2")
            for name, value in NO_CODE_PER_PLAN.items():
                session.conf.set(name, value)
            yield session
