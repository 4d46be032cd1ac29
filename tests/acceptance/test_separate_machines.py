"""Jobs on a cluster whose machines share nothing but an object store: other host names, a /tmp of their own."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from support.fleet import lake_process
from support.fleet.moto_s3 import MotoS3, moto_s3
from support.fleet.small_spark import FEW_TASKS, NO_CODE_PER_PLAN, SHORT_LIFE
from support.fleet.spark_clusters import LIMIT_S, Cluster, cluster_environ, separate_machines
from support.fleet.stream_lakes import ship, tables
from support.spec.clauses import clause
from support.system.mount_namespaces import why_no_namespaces

pytestmark = pytest.mark.soak

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from restante.fleet import StreamOptions, backfill, report, start_stream

streamed, filled = sys.argv[1:]
spark = SparkSession.builder.appName("restante nightly").getOrCreate()
done = start_stream(spark, streamed, options=StreamOptions(once=True, buckets=2, files_per_batch=4)).await_end()
made = backfill(spark, filled)
found = [report(spark, lake) for lake in (streamed, filled)]
hosts = {one.host() for one in spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()}
print(json.dumps({
    "rows": done.rows,
    "events": made.events,
    "read_from": [one.read_from for one in found],
    "unaccounted": [one.conservation.total.unaccounted for one in found],
    "hosts": sorted(hosts),
}))
spark.stop()
"""


@pytest.fixture(scope="module")
def store() -> Iterator[MotoS3]:
    with moto_s3() as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environ.items():
            patch.setenv(name, value)
        yield started


@pytest.fixture(scope="module")
def machines(store: MotoS3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Mapping[str, str]]]:
    if (reason := why_no_namespaces()) is not None:
        pytest.skip(f"no process can have mounts of its own here: {reason}")
    environ = {**cluster_environ(), **store.environ}
    with separate_machines(tmp_path_factory.mktemp("cluster"), environ) as cluster:
        yield cluster, environ


@clause("13.2")
def test_a_job_submitted_to_machines_that_share_only_the_store_makes_the_tables_of_one_machine(
    spark: SparkSession, machines: tuple[Cluster, Mapping[str, str]], store: MotoS3, tmp_path: Path
) -> None:
    """With the public functions alone: stream, backfill and reports in the session of spark-submit."""
    cluster, environ = machines
    ship(tmp_path / "lake" / "segments")
    for name in ("streamed", "filled"):
        store.upload(tmp_path / "lake" / "segments", f"{name}/segments")
    lakes = [store.address(name) for name in ("streamed", "filled")]
    done = submitted(cluster, environ, tmp_path, *lakes)
    assert done == {
        "rows": 167,
        "events": 154,
        "read_from": ["stream", "tables"],
        "unaccounted": [120, 120],
        "hosts": ["127.0.0.1", "127.0.0.2", "127.0.0.3"],
    }
    lake_process.run(spark, "stream", str(tmp_path / "lake"))
    assert tables(lakes[0]) == tables(str(tmp_path / "lake"))


def submitted(cluster: Cluster, environ: Mapping[str, str], directory: Path, *lakes: str) -> dict[str, Any]:
    script = directory / "job.py"
    script.write_text(SCRIPT, "utf-8")
    settings = {
        **NO_CODE_PER_PLAN,
        **FEW_TASKS,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": SHORT_LIFE,
        "spark.executor.memory": "512m",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")] + [str(script), *lakes]
    done = subprocess.run(
        [str(SUBMIT), "--master", cluster.master, *words],
        env={name: value for name, value in environ.items() if name != "PYSPARK_SUBMIT_ARGS"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if "INFO" not in line)[:9_000]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said
