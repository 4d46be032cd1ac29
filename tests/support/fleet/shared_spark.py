"""One Spark for all tests of a process: starting it costs more than most of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from restante.fleet.spark.session import open_session
    from support.fleet.small_spark import FEW_TASKS, NO_CODE_PER_PLAN, SHORT_LIFE

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", SHORT_LIFE)
        with open_session(app_name="restante tests", master="local[2]") as session:
            for name, value in (NO_CODE_PER_PLAN | FEW_TASKS).items():
                session.conf.set(name, value)
            yield session
