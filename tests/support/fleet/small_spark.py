"""Spark for tests with a handful of rows: what makes large jobs fast only costs them time."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SHORT_LIFE: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""No long warm-up of Java."""
NO_CODE_PER_PLAN: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Java code made for each plan pays from some thousand rows on; the demo and the benchmarks run with it."""

FEW_TASKS: Final = {
    "spark.sql.adaptive.enabled": "false",  # each shuffle would be a job of its own
    "spark.sql.files.minPartitionNum": "2",
    "spark.sql.shuffle.partitions": "2",
}
"""For the session of the tests; the demo, the benchmarks and commands in processes of their own run without."""


def quick_environ(more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """What a command that starts Spark finds in its environment, with `more` settings for Spark."""
    settings = {**NO_CODE_PER_PLAN, **more}
    words = [f"--conf '{name}={value}'" for name, value in settings.items()]
    return {"SPARK_SUBMIT_OPTS": SHORT_LIFE, "PYSPARK_SUBMIT_ARGS": " ".join([*words, "pyspark-shell"])}
