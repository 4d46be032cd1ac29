"""Lakes that a command cannot change: named in one line with an exit status, before Java is started where possible."""

import json
import subprocess
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.lake.layout import Lake
from restante.fleet.stream.batches import BATCHES, open_batches
from restante.policy.settings import Settings
from support.fleet.journal_files import records, write_segment
from support.fleet.old_fleet import FIRST_DAY, fleet_with_past
from support.fleet.small_spark import quick_environ
from support.fleet.stream_lakes import facts, ship
from support.fleet.stream_without_spark import make_stream_lake
from support.relay.node_processes import COMMAND, clean_environ, restante
from support.spec.clauses import clause
from support.system.mount_namespaces import why_no_namespaces, with_read_only
from support.system.wait_until import LIMIT_S

COMMANDS = {
    "stream": ("stream", "--once", "--lake"),
    "backfill": ("backfill", "--lake"),
    "generate": ("generate", "--lake"),
}


def said_of_read_only(lake: Path, *words: str) -> subprocess.CompletedProcess[str]:
    if (reason := why_no_namespaces()) is not None:
        pytest.skip(f"no process can have mounts of its own here: {reason}")
    return subprocess.run(
        [*with_read_only(lake), COMMAND, "fleet", *words],
        env=clean_environ(JAVA_HOME="/nowhere"),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_lake_that_is_read_only_is_named_in_one_line_before_java_is_started(tmp_path: Path, name: str) -> None:
    lake = tmp_path / "lake"
    ship(lake / "segments")
    done = said_of_read_only(lake, *COMMANDS[name], str(lake))
    assert (done.returncode, done.stdout) == (1, "")
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error ")]
    assert line.startswith("error E106: ")
    assert line.endswith("cannot be written: Read-only file system")
    assert "Traceback" not in done.stderr


@clause("13.3")
def test_retain_prints_what_it_deleted_from_a_stream_and_names_the_days_that_it_must_keep(tmp_path: Path) -> None:
    rows = [row for journal in fleet_with_past() for row in records(journal.rows)]
    made = make_stream_lake(tmp_path / "lake", rows)
    words = ("fleet", "retain", "--lake", made.root, "--yes")
    refused = restante(*words, "--days", "30", status=2)
    assert refused.stderr.startswith("error E102: days that a stream keeps = 30 is outside 120..36500 days")
    assert "at least 120" in restante("fleet", "retain", "--help").stdout
    days = (datetime.now(UTC).date() - date.fromisoformat(FIRST_DAY)).days
    done = json.loads(restante(*words, "--days", str(days), "--json").stdout)
    assert [(one["table"], one["rows_deleted"]) for one in done] == [("events", 26), ("arrivals", 6)]
    assert min(path.name for path in Path(made.table("events")).glob("day=*")) >= f"day={FIRST_DAY}"


@pytest.mark.soak  # needs a lake that Spark made; the commands above need none
def test_a_read_only_lake_is_queried_and_none_of_its_files_is_changed(tmp_path: Path, spark: SparkSession) -> None:
    lake = tmp_path / "lake"
    ship(lake / "segments")
    options = StreamOptions(once=True, buckets=2, is_published=False)
    start_stream(spark, Lake(str(lake)), Settings(), options).await_end()
    asked = said_of_read_only(lake, "query", "--lake", str(lake), "select count(*) as n from events", "--json")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert '"n": 154' in asked.stdout
    done = said_of_read_only(lake, "forget", "--lake", str(lake), "--writer", "00" * 15 + "01", "--yes")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.soak
def test_a_second_driver_ends_with_one_line_and_changes_nothing(tmp_path: Path) -> None:
    """Another driver has committed a batch that this one is about to commit."""
    lake, rows = tmp_path / "lake", facts()
    (lake / "segments").mkdir(parents=True)
    write_segment(lake / "segments" / "a.parquet", rows[:20])
    words = ["fleet", "stream", "--lake", str(lake), "--master", "local[1]", "--poll-interval-s", "1"]
    process = subprocess.Popen(
        [COMMAND, *words], env=clean_environ(**quick_environ()), stderr=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert process.stderr is not None
        while not (line := process.stderr.readline()).startswith("batch 1: "):
            assert line, "the stream ended"
        other = open_batches(Lake(str(lake)))
        [row] = other.read().to_pylist()
        other.commit(2, [other.write(pa.Table.from_pylist([{**row, "n": 2}], schema=BATCHES))])
        write_segment(lake / "segments" / "b.parquet", rows[20:])
        _, said = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1
    assert "error E106: another 'restante fleet stream' or backfill writes to the table batches" in said
    assert "Traceback" not in said
    assert [one["n"] for one in open_batches(Lake(str(lake))).read().sort_by("n").to_pylist()] == [1, 2]
