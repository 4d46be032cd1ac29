"""The Python examples of docs/howto/spark.md run, in the session that is there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.generate import generate
from restante.fleet.kernels.synthetic_fleet import Scenario
from restante.fleet.lake.layout import Lake
from support.spec.clauses import clause

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "spark.md"
_BLOCK = re.compile(r"^```python(?P<submit> submit)?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
SMALL = Scenario(messages=60, sessions=6, clients=4, nodes=3, days=2)


def examples(*, submit: bool) -> list[str]:
    return [found["code"] for found in _BLOCK.finditer(PAGE.read_text("utf-8")) if bool(found["submit"]) is submit]


@clause("13.2")
@pytest.mark.soak
def test_every_example_of_the_page_runs_in_a_session_that_is_there(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "lake"
    generate(spark, Lake(str(made)), SMALL)
    shutil.copytree(made, tmp_path / "live")
    names: dict[str, Any] = {}
    codes = examples(submit=False)
    assert len(codes) == 4
    for code in codes:
        exec(code.replace("/srv/", f"{tmp_path}/"), names)  # noqa: S102 - our own page
    said = capsys.readouterr().out
    assert "0 rows in quarantine, 0 bad files" in said
    assert "of 60 delivered, 0 unaccounted for" in said
    assert "restante fleet stream" in said
    assert names["finished"].counts.events == names["done"].events
    assert names["page"].startswith("<!doctype html>")
    assert spark.range(3).count() == 3


@pytest.mark.soak
def test_the_script_of_the_page_runs_under_spark_submit(spark: SparkSession, tmp_path: Path) -> None:
    generate(spark, Lake(str(tmp_path / "lake")), SMALL)
    [code] = examples(submit=True)
    script, out = tmp_path / "nightly.py", tmp_path / "report.html"
    script.write_text(code, "utf-8")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = ["--conf", "spark.sql.session.timeZone=UTC", "--conf", "spark.ui.enabled=false"]
    done = subprocess.run(
        [submit, "--master", "local[2]", *settings, script, tmp_path / "lake", out],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "Fleet report" in out.read_text("utf-8")
