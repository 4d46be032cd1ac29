"""A fleet's jobs where something of the machine is in the way: told in a sentence with a code, nothing half done."""

import contextlib
import json
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.cli.error_advice import EXIT_INTERRUPTED
from restante.model.journal import JournalKind
from support.fleet.journal_files import Journal, message, records, write_segment, writer
from support.fleet.small_spark import SHORT_LIFE
from support.relay.node_processes import COMMAND, clean_environ, restante, spawned
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S, until

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


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc to find processes")
def test_interrupted_while_spark_starts_a_command_ends_without_a_traceback_and_leaves_no_java(
    tmp_path: Path, lake: Path
) -> None:
    process = subprocess.Popen(
        [COMMAND, "fleet", "report", str(lake / "segments"), "--master", "local[1]"],
        env=clean_environ(SPARK_SUBMIT_OPTS=SHORT_LIFE, TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: process.poll() is not None or b"org.apache.spark" in words_of_children(process.pid))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (EXIT_INTERRUPTED, "", "")
    assert not any(str(tmp_path).encode() in words for words in all_words()), "Java still runs"


def all_words() -> Iterator[bytes]:
    """The command line of every process."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield entry.read_bytes()


def words_of_children(pid: int) -> bytes:
    """The command lines of the processes that a process started."""
    found = b""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(entry.read_text("utf-8").rpartition(")")[2].split()[1]) == pid:
                found += entry.with_name("cmdline").read_bytes()
    return found
