"""`restante fleet stream` as an operator runs it: killed at any moment and started again, stopped."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.lake.layout import Lake
from restante.policy.settings import Settings
from support.fleet.small_spark import quick_environ
from support.fleet.stream_lakes import ship, tables
from support.spec.clauses import clause

pytestmark = pytest.mark.acceptance

WAIT_S = 240.0
Environ = dict[str, str]

KILLED = """
import os, signal, sys, threading
from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.lake.delta import DeltaFiles
from restante.fleet.lake.layout import Lake
from restante.fleet.spark.session import open_session
from restante.fleet.stream.batches import Batches
from restante.policy.settings import Settings
left, commit = int(sys.argv[1]), DeltaFiles._commit
def countdown():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
def killed_commit(self, *args):
    countdown()
    commit(self, *args)
    countdown()
DeltaFiles._commit = killed_commit
lake = Lake(sys.argv[2])
"""
"""Kills itself at the k-th moment before or after a commit of the driver."""
STREAM = f"""{KILLED}
options = StreamOptions(once=True, buckets=2, files_per_batch=4, is_published=False)
with open_session(app_name="run", master="local[2]") as spark:
    start_stream(spark, lake, Settings(), options).await_end(threading.Event())
"""
RECOVERY = f"""{KILLED}
Batches(lake, buckets=2)
"""
"""What a stream does first of all, before Spark runs anything."""
COMMITS_PER_BATCH = 11  # the redo row, nine tables, what became of the segments
AROUND_BATCHES = [2 * COMMITS_PER_BATCH + moment for moment in (-1, 0, 1, 2)]
OPTIONS = StreamOptions(once=True, buckets=2, files_per_batch=4, is_published=False)


@pytest.fixture(scope="module")
def environment() -> Environ:
    return os.environ | quick_environ()


def restante(*words: str) -> list[str]:
    return [sys.executable, "-c", "from restante.cli.main import main; main()", *words]


def told(environment: Environ, *words: str) -> subprocess.CompletedProcess[str]:
    """What a command says and how it ends."""
    return subprocess.run(
        restante(*words), capture_output=True, text=True, env=environment, timeout=WAIT_S, check=False
    )


def run(spark: SparkSession, root: Path) -> dict[str, Any]:
    """The tables of a stream that nothing interrupts."""
    start_stream(spark, Lake(str(root)), Settings(), OPTIONS).await_end(threading.Event())
    return tables(str(root))


def kill(environment: Environ, program: str, moment: int, root: Path) -> None:
    words = [sys.executable, "-c", program, str(moment), str(root)]
    done = subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, timeout=WAIT_S, check=False)
    assert done.returncode == -signal.SIGKILL


def lose_checkpoint(root: Path) -> None:
    shutil.rmtree(root / "stream" / "checkpoint", ignore_errors=True)


def age_checkpoint(root: Path) -> None:
    """What a copy from before the last two commits has."""
    for folder in ("commits", "offsets"):
        kept = sorted((root / "stream" / "checkpoint" / folder).glob("[0-9]*"), key=lambda path: int(path.name))
        for path in kept[-1:]:
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


AGAIN: tuple[tuple[int, ...], ...] = ((), (1,), (5, 2))
"""When it is killed again, each time it is started."""
CHECKPOINTS = {"kept": lambda _root: None, "lost": lose_checkpoint, "stale": age_checkpoint}


@pytest.fixture(scope="module")
def uninterrupted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("whole") / "lake"
    ship(root / "segments")
    found = run(spark, root)
    assert found["counts"][1] > 0
    assert found["counts"][2] > 0
    return found


@clause("13.9")
def test_killed_at_its_commit_point_and_again_in_recovery_it_makes_the_tables_of_one_run(
    spark: SparkSession, tmp_path: Path, environment: Environ, uninterrupted: dict[str, Any]
) -> None:
    """After the second redo row, then between two tables of the recovery, and without its checkpoint."""
    ship(tmp_path / "lake" / "segments")
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    kill(environment | {"TMPDIR": str(scratch)}, STREAM, 2 * COMMITS_PER_BATCH + 2, tmp_path / "lake")
    assert not list(scratch.glob("restante-checkpoint-*")), "the checkpoint is in the lake"
    kill(environment, RECOVERY, 5, tmp_path / "lake")
    lose_checkpoint(tmp_path / "lake")
    assert run(spark, tmp_path / "lake") == uninterrupted


@pytest.mark.soak
@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize("kills", [(first, *again) for again in AGAIN for first in (1, 2, 3, 8, *AROUND_BATCHES, 31)])
@clause("13.9")
def test_killed_around_any_commit_it_makes_the_tables_of_one_run(
    spark: SparkSession,
    tmp_path: Path,
    environment: Environ,
    uninterrupted: dict[str, Any],
    *,
    kills: tuple[int, ...],
    checkpoint: str,
) -> None:
    ship(tmp_path / "lake" / "segments")
    for moment in kills:
        kill(environment, STREAM, moment, tmp_path / "lake")
        CHECKPOINTS[checkpoint](tmp_path / "lake")
    assert run(spark, tmp_path / "lake") == uninterrupted


def test_it_is_stopped_kindly_and_says_what_it_did(tmp_path: Path, environment: Environ) -> None:
    ship(tmp_path / "segments")
    words = restante("fleet", "stream", "--lake", str(tmp_path), "--master", "local[1]", "--poll-interval-s", "1")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(4)]
        assert lines[0] == "starting Spark\n"
        assert lines[1].startswith("Spark UI at http://127.0.0.1:")
        assert lines[2] == "looking for segments\n"
        assert lines[3].startswith("batch 1: ")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert "The stream at batch" in out
    assert "not a whole Parquet file" in out
    assert "stopping after this batch" in err
    assert "WARN" not in err


def test_a_lake_that_is_none_is_named(tmp_path: Path, environment: Environ) -> None:
    done = told(environment, "fleet", "stream", "--lake", str(tmp_path))
    assert done.returncode == 1
    assert "is not a directory; journals are shipped to 'segments' in a lake" in done.stderr


def test_a_stream_for_a_program_prints_json_and_nothing_else(tmp_path: Path, environment: Environ) -> None:
    (tmp_path / "lake" / "segments").mkdir(parents=True)
    where = ["--lake", f"file://{tmp_path}/lake"]
    done = told(environment, "fleet", "stream", *where, "--master", "local[1]", "--once", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rows"] == 0
