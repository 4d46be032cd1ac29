"""Spark for tests with a handful of rows: what makes large jobs fast only costs them time."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

SHORT_LIFE: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""No long warm-up of Java."""
NO_CODE_PER_PLAN: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Java code made for each plan pays from some thousand rows on; the demo and the benchmarks run with it."""


def write_defaults(directory: Path, more: Mapping[str, str] = MappingProxyType({})) -> Path:
    """A directory for SPARK_CONF_DIR."""
    conf = directory / "conf"
    conf.mkdir(exist_ok=True)
    settings = {**NO_CODE_PER_PLAN, **more}
    (conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()), "utf-8")
    return conf


def quick_environ(directory: Path) -> dict[str, str]:
    """What a command that starts Spark finds in its environment; `directory` is there for its settings."""
    return {"SPARK_SUBMIT_OPTS": SHORT_LIFE, "SPARK_CONF_DIR": str(write_defaults(directory))}
