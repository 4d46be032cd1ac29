"""A fleet's jobs where something of the machine is in the way: told in a sentence with a code, nothing half done."""

import json
import resource
import subprocess
from pathlib import Path

import pytest

from restante.model.journal import JournalKind
from support.fleet.journal_files import Journal, message, records, write_segment, writer
from support.fleet.small_spark import SHORT_LIFE
from support.relay.node_processes import COMMAND, clean_environ, restante, spawned
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S

NOON_MS = 1_767_614_400_000
SMALL_BYTES = 60_000


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    journal = Journal(writer(1))
    for number in range(20_000):
        journal.write(JournalKind.ACCEPTED, message(number), NOON_MS + number)
    (tmp_path / "lake" / "segments").mkdir(parents=True)
    write_segment(tmp_path / "lake" / "segments" / "a.parquet", records(journal.rows))
    return tmp_path / "lake"


@clause("13.2")
def test_a_full_disk_is_named_and_leaves_no_half_table(lake: Path) -> None:
    def no_room() -> None:
        """As on a full disk: no file gets longer than so much."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_BYTES, SMALL_BYTES))

    done = subprocess.run(
        [COMMAND, "fleet", "backfill", "--lake", str(lake), "--master", "local[2]", "--json"],
        env=clean_environ(SPARK_SUBMIT_OPTS=SHORT_LIFE),
        preexec_fn=no_room,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * LIMIT_S,
    )
    assert (done.returncode, done.stdout) == (1, "")
    told = json.loads(done.stderr)["error"]
    assert (told["code"], told["text"].partition(";")[0]) == ("E106", "a disk that Spark writes to is full")
    assert not list(lake.glob("tables/events/day=*/*.parquet"))


def test_bad_paths_and_masters_are_told_before_java_is_started(tmp_path: Path, lake: Path) -> None:
    nowhere = restante("fleet", "backfill", "--lake", str(tmp_path / "nowhere"), status=1)
    assert "error E109" in nowhere.stderr
    assert "is not a directory; it should hold journal segments" in nowhere.stderr
    (tmp_path / "empty" / "segments").mkdir(parents=True)
    empty = restante("fleet", "backfill", "--lake", str(tmp_path / "empty"), status=1)
    assert "holds no journal segments (*.parquet)" in empty.stderr
    master = spawned("fleet", "backfill", "--lake", str(lake), "--master", "nonsense", status=2)
    assert "error E107: --master 'nonsense' is none of Spark's" in master.stderr
