"""`restante fleet stream` as an operator runs it: killed at any moment and started again, stopped, started twice."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from restante.fleet.stream.commits import latest_commit
from restante.fleet.stream.files import Desk
from restante.model.ids import SessionTag
from restante.model.journal import JournalKind
from support.fleet.journal_files import Journal, Record, message, records, sealed, write_segment, writer
from support.fleet.small_spark import quick_environ
from support.spec.clauses import clause

pytestmark = pytest.mark.acceptance

NOON_MS = 1_767_614_400_000
SEED = 20_260_105
KILLS = 3
WAIT_S = 120.0
Environ = dict[str, str]
TABLES = ("events", "arrivals", "quarantine", "repeats")

RUN = """
import sys, threading
from restante.fleet.jobs.stream_run import RunOptions, follow
from restante.fleet.lake.layout import Lake
from restante.fleet.spark.session import open_session
from restante.fleet.stream.commits import only_one
from restante.policy.settings import Settings
options = RunOptions(once=True, buckets=2, rows_per_step=50)
tell = lambda step: print(step.commit, flush=True)
with open_session(app_name="run", master="local[2]") as spark:
    for lake in map(Lake, sys.argv[1:]):
        with only_one(lake.local_stream):
            follow(spark, lake, Settings(), options, stop=threading.Event(), on_step=tell)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environ:
    return os.environ | quick_environ(tmp_path_factory.mktemp("spark"))


def restante(*words: str) -> list[str]:
    return [sys.executable, "-c", "from restante.cli.main import main; main()", *words]


def told(environment: Environ, *words: str) -> subprocess.CompletedProcess[str]:
    """What a command says and how it ends."""
    return subprocess.run(
        restante(*words), capture_output=True, text=True, env=environment, timeout=WAIT_S, check=False
    )


def facts() -> list[Record]:
    """Two recipients with two sessions each, some of it out of order and twice, and a row that is none."""
    dice = random.Random(SEED)  # noqa: S311 - what goes wrong when, not a secret
    rows: list[Record] = []
    for who in (1, 2):
        journal = Journal(writer(who))
        numbers = sorted(range(60), key=lambda number: number + dice.choice((0, 0, 0, 2.5)))
        for place, number in enumerate(numbers):
            for _ in range(dice.choice((1, 1, 1, 2))):
                journal.write(
                    JournalKind.ARRIVED,
                    message(number + 1_000 * who),
                    NOON_MS + place * 1_000,
                    session_tag=SessionTag(bytes([who, number % 2]) * 8),
                    sequence=number // 2,
                    payload_hash=sealed(number),
                    code="new",
                )
        rows += records(journal.rows)
    return rows


def ship(segments: Path) -> None:
    """In segments that overlap and come in the wrong order, one of them cut."""
    segments.mkdir(parents=True)
    rows = facts()
    dice = random.Random(SEED)  # noqa: S311 - what goes wrong when, not a secret
    starts = list(range(0, len(rows), 25))
    dice.shuffle(starts)
    for name, start in enumerate(starts):
        part = rows[start : start + dice.choice((25, 30))]
        write_segment(segments / f"{name:03d}.parquet", part)
    write_segment(segments / "odd.parquet", [{**rows[0], "kind": "sneezed"}, {**rows[1], "code": "replay"}])
    whole = (segments / "000.parquet").read_bytes()
    (segments / "cut.parquet").write_bytes(whole[: len(whole) // 2])


def tables(root: Path) -> dict[str, Any]:
    """Every row of the stream's tables, and what it counted."""
    commit = latest_commit(root / "stream")
    assert commit is not None
    found: dict[str, Any] = {}
    for what in TABLES:
        desk = Desk(root / "stream", "", 0)
        refs = [ref for bucket in commit.buckets for ref in getattr(bucket, what)]
        rows = [str(row) for ref in refs for row in desk.read_table(ref).to_pylist()]
        found[what] = Counter(rows)
    odd = [(one.name, one.reason) for one in commit.odd_files]
    return found | {"odd": odd, "counts": (commit.counts.events, commit.counts.duplicates, commit.counts.quarantined)}


def killed_after(environment: Environ, roots: Sequence[Path], lines: int, delay_s: float) -> bool:
    """Start a process that runs one after the other; kill it a moment after the so-many-th step, if it goes on."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, roots)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        for _ in range(lines):
            if not process.stdout.readline():
                break
        try:
            process.wait(delay_s)
        except subprocess.TimeoutExpired:
            process.kill()
        return process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@clause("13.9")
def test_killed_at_random_moments_and_started_again_it_makes_the_tables_of_one_run(
    tmp_path: Path, environment: Environ
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for root in (whole, killed):
        ship(root / "segments")
    dice = random.Random(SEED)  # noqa: S311 - what goes wrong when, not a secret
    ended = [killed_after(environment, [killed], dice.randint(1, 2), dice.random()) for _ in range(KILLS)]
    assert not all(ended)
    assert killed_after(environment, [killed, whole], 1_000, WAIT_S)
    uninterrupted = tables(whole)
    assert tables(killed) == uninterrupted
    assert uninterrupted["counts"][1] > 0
    assert uninterrupted["counts"][2] > 0


def test_it_is_stopped_kindly_refused_a_second_time_and_says_what_it_did(tmp_path: Path, environment: Environ) -> None:
    ship(tmp_path / "segments")
    words = restante(
        "fleet", "stream", "--lake", str(tmp_path), "--master", "local[1]", "--poll-interval-s", "1", "--buckets", "2"
    )
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(3)]
        assert lines[:2] == ["starting Spark\n", "looking for segments\n"]
        assert lines[2].startswith("commit 1: ")
        second = told(environment, "fleet", "stream", "--lake", str(tmp_path))
        assert second.returncode == 1
        assert "another 'restante fleet stream' works on" in second.stderr
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert "The stream at commit" in out
    assert "not a whole Parquet file" in out
    assert "stopping after this step" in err
    assert "WARN" not in err


def test_a_lake_that_is_none_is_named(tmp_path: Path, environment: Environ) -> None:
    done = told(environment, "fleet", "stream", "--lake", str(tmp_path))
    assert done.returncode == 1
    assert "is not a directory; journals are shipped to 'segments' in a lake" in done.stderr


def test_a_run_for_a_program_prints_json_and_nothing_else(tmp_path: Path, environment: Environ) -> None:
    """Of a lake by its address, with the stream's own files elsewhere."""
    (tmp_path / "lake" / "segments").mkdir(parents=True)
    where = ["--lake", f"file://{tmp_path}/lake", "--state", str(tmp_path / "state")]
    done = told(environment, "fleet", "stream", *where, "--master", "local[1]", "--once", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rows"] == 0
    assert sorted(path.name for path in (tmp_path / "lake").iterdir()) == ["segments"]


def test_a_lake_elsewhere_wants_a_place_for_the_streams_files(environment: Environ) -> None:
    done = told(environment, "fleet", "stream", "--lake", "s3a://bucket/lake")
    assert done.returncode == 2
    assert "name a directory for the stream's own files, with --state" in done.stderr
