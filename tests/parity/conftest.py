"""One Spark for all parity tests: starting it costs more than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from restante.fleet.session import open_session

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # the tables are tiny: a long warm-up would never pay


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", QUICK_START)
        with open_session(app_name="restante tests", master="local[2]") as session:
            session.conf.set("spark.sql.shuffle.partitions", "2")
            # Code made for a plan pays from some thousand rows on; acceptance tests run with it, as operators do.
            session.conf.set("spark.sql.codegen.wholeStage", "false")
            session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            yield session
