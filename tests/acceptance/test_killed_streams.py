"""A stream whose driver, executor or Python worker is killed at any point makes the tables of one run (SPEC 13.9).

On a disk and on an object store, with its checkpoint kept, lost and stale, and killed once more in recovery.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.lake.layout import Lake
from restante.policy.settings import Settings
from support.fleet import killed_stream
from support.fleet.killed_stream import (
    AFTER_PLAN,
    AFTER_REDO,
    AFTER_TASKS,
    BATCH_START,
    BEFORE_PLAN,
    BEFORE_SPARK,
    BUCKETS,
    FIRST_TABLE,
    LAST_TABLE,
    POINTS,
)
from support.fleet.moto_s3 import MotoS3, moto_s3
from support.fleet.small_spark import FEW_TASKS, quick_environ
from support.fleet.spark_clusters import LIMIT_S, Cluster, cluster_environ, separate_machines
from support.fleet.stream_lakes import ship, tables
from support.spec.clauses import clause
from support.system.mount_namespaces import why_no_namespaces
from support.system.programs import command

pytestmark = pytest.mark.soak

STORES = ("file", "s3")
AGAIN = {
    BEFORE_PLAN: ("driver", BEFORE_PLAN),
    AFTER_PLAN: ("driver", BATCH_START),
    BATCH_START: ("driver", BATCH_START),
    AFTER_TASKS: ("driver", AFTER_TASKS),
    AFTER_REDO: ("recovery", FIRST_TABLE),
    FIRST_TABLE: ("recovery", LAST_TABLE),
    LAST_TABLE: ("driver", BEFORE_SPARK),
    BEFORE_SPARK: ("driver", BEFORE_SPARK),
}
"""Where it is killed while it recovers from a kill."""


@dataclass(frozen=True, slots=True)
class Place:
    """A lake with its segments, and the checkpoint of its stream."""

    lake: str
    checkpoint: Path


@pytest.fixture(scope="module")
def store() -> Iterator[MotoS3]:
    with moto_s3() as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environ.items():
            patch.setenv(name, value)
        yield started


@pytest.fixture(scope="module")
def session(spark: SparkSession, store: MotoS3) -> Iterator[SparkSession]:
    """The session of the tests; its Python processes reach the store."""
    environ = spark.sparkContext.environment
    environ.update(store.environ)
    yield spark
    for name in store.environ:
        del environ[name]


@pytest.fixture
def place(tmp_path: Path, store: MotoS3, request: pytest.FixtureRequest) -> Place:
    ship(tmp_path / "lake" / "segments")
    if request.param == "file":
        return Place(str(tmp_path / "lake"), tmp_path / "checkpoint")
    store.upload(tmp_path / "lake" / "segments", f"{tmp_path.name}/segments")
    return Place(store.address(tmp_path.name), tmp_path / "checkpoint")


@pytest.fixture(scope="module")
def uninterrupted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("whole")
    ship(root / "lake" / "segments")
    return finish(spark, Place(str(root / "lake"), root / "checkpoint"))


def finish(spark: SparkSession, place: Place) -> dict[str, Any]:
    """The tables once a stream has run to its end."""
    options = StreamOptions(
        once=True, buckets=BUCKETS, files_per_batch=4, is_published=False, checkpoint=str(place.checkpoint)
    )
    start_stream(spark, Lake(place.lake), Settings(), options).await_end()
    return tables(place.lake)


def run(place: Place, who: str, point: str, environ: Mapping[str, str], master: str = "local[2]") -> int:
    """The status at its end."""
    words = [*command(killed_stream), master, place.lake, str(place.checkpoint), who, point]
    done = subprocess.run(
        words, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=LIMIT_S, check=False
    )
    return done.returncode


def lose(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint, ignore_errors=True)


def age(checkpoint: Path) -> None:
    """What a copy from before the last batch has."""
    for folder in ("commits", "offsets"):
        kept = sorted((checkpoint / folder).glob("[0-9]*"), key=lambda path: int(path.name))
        for path in kept[-1:]:
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


CHECKPOINTS: dict[str, Callable[[Path], None]] = {"kept": lambda _checkpoint: None, "lost": lose, "stale": age}


@pytest.mark.parametrize("again", ["once", "again"])
@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("place", STORES, indirect=True)
@clause("13.9")
def test_a_driver_killed_at_any_point_and_again_in_recovery_loses_and_doubles_nothing(
    session: SparkSession,
    place: Place,
    uninterrupted: dict[str, Any],
    *,
    point: str,
    checkpoint: str,
    again: str,
) -> None:
    environ = os.environ | quick_environ(FEW_TASKS)
    assert run(place, "driver", point, environ) == -signal.SIGKILL
    CHECKPOINTS[checkpoint](place.checkpoint)
    if again == "again":
        killed = run(place, *AGAIN[point], environ)
        # A batch that is in all tables is not run again, unless the checkpoint says that it was not.
        assert killed == -signal.SIGKILL or (killed == 0 and point in (LAST_TABLE, BEFORE_SPARK))
        CHECKPOINTS[checkpoint](place.checkpoint)
    assert finish(session, place) == uninterrupted


@pytest.fixture(scope="module")
def machines(store: MotoS3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Mapping[str, str]]]:
    if (reason := why_no_namespaces()) is not None:
        pytest.skip(f"no process can have mounts of its own here: {reason}")
    environ = {**cluster_environ(), **store.environ}
    with separate_machines(tmp_path_factory.mktemp("cluster"), environ) as cluster:
        yield cluster, environ


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize("point", ["before", "after"])
@pytest.mark.parametrize("who", ["worker", "executor"])
@pytest.mark.parametrize("place", ["s3"], indirect=True)
@clause("13.2", "13.9")
def test_a_worker_or_executor_killed_on_machines_that_share_only_the_store_loses_and_doubles_nothing(
    machines: tuple[Cluster, Mapping[str, str]],
    place: Place,
    uninterrupted: dict[str, Any],
    *,
    who: str,
    point: str,
    checkpoint: str,
) -> None:
    """Without the checkpoint, or with an old one, the driver was killed after the redo row before."""
    cluster, environ = machines
    if checkpoint != "kept":
        assert run(place, "driver", AFTER_REDO, environ, cluster.master) == -signal.SIGKILL
        CHECKPOINTS[checkpoint](place.checkpoint)
    assert run(place, who, point, environ, cluster.master) == 0
    assert tables(place.lake) == uninterrupted


@pytest.mark.parametrize("point", ["before", "after"])
@pytest.mark.parametrize("who", ["worker", "executor"])
@pytest.mark.parametrize("place", STORES, indirect=True)
@clause("13.9")
def test_a_worker_or_the_java_killed_on_one_machine_ends_the_stream_and_the_next_one_goes_on(
    session: SparkSession, place: Place, uninterrupted: dict[str, Any], *, who: str, point: str
) -> None:
    """With `local` there is one attempt for a task, and the executor is the driver's own Java."""
    assert run(place, who, point, os.environ | quick_environ(FEW_TASKS)) != 0
    assert finish(session, place) == uninterrupted
