"""The report in a process of its own, on a machine where nobody ever installed Java."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from support.fleet.journal_files import Journal, message, records, write_segment, writer
from support.fleet.small_spark import quick_environ
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
WHAT_SPARKS_SCRIPTS_CALL = ("bash", "dirname", "ps", "sh")

REPORT = """
import json, os, signal, sys
from dataclasses import asdict
from pathlib import Path
from restante.fleet.jobs.conservation_report import run_report
from restante.fleet.spark.session import open_session

before = (dict(os.environ), list(sys.path), signal.getsignal(signal.SIGINT))
report = run_report(Path(sys.argv[1]), master="local[2]")
named_by_spark = ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")
environ = {name: value for name, value in os.environ.items() if name not in named_by_spark}
unchanged = (environ, sys.path, signal.getsignal(signal.SIGINT)) == before
print("here it is killed", file=sys.stderr)

try:
    with open_session(app_name="killed", master="local[1]") as spark:
        process = spark.sparkContext._gateway.proc
        unchanged = unchanged and signal.getsignal(signal.SIGINT) == before[2]
        workers_run = spark.sparkContext.pythonExec
        process.kill()
        process.wait()
        spark.range(1).count()
except OSError as error:
    notes = error.__notes__

print(json.dumps({"total": asdict(report.total), "balanced": report.balanced, "complete": report.complete,
                  "p50_ms": [row.p50_ms for row in report.latency], "unchanged": unchanged,
                  "workers_run": workers_run, "note": notes[0].partition(";")[0]}))
"""


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    sender = Journal(writer(1))
    for number in range(10):
        sender.write(JournalKind.ACCEPTED, message(number), NOON_MS, message_kind=Kind.TEXT)
        sender.write(JournalKind.DELIVERED, message(number), NOON_MS + 100 * number)
    directory = tmp_path / "segments"
    directory.mkdir()
    write_segment(directory / "sender.parquet", records(sender.rows))
    return directory


@pytest.fixture
def no_java(tmp_path: Path) -> dict[str, str]:
    """JAVA_HOME is unset, and PATH leads to what Spark's scripts call and to nothing else."""
    tools, scratch = tmp_path / "tools", tmp_path / "scratch"
    tools.mkdir()
    scratch.mkdir()
    for name in WHAT_SPARKS_SCRIPTS_CALL:
        found = shutil.which(name)
        if found is not None:
            (tools / name).symlink_to(found)
    assert shutil.which("java", path=str(tools)) is None
    return {
        "PATH": str(tools),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TMPDIR": str(scratch),
        **quick_environ(),
    }


@clause("13.4")
def test_a_report_runs_where_no_java_is_installed_says_nothing_and_leaves_nothing(
    segments: Path, no_java: dict[str, str], tmp_path: Path
) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", REPORT, str(segments)],
        env=no_java,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (result.returncode, result.stderr.partition("here it is killed")[0]) == (0, "")
    assert json.loads(result.stdout) == {
        "total": {
            "day": None,
            "accepted": 10,
            "delivered": 10,
            "expired": 0,
            "evicted": 0,
            "dead": 0,
            "in_flight": 0,
            "unaccounted": 0,
            "is_balanced": True,
            "stored_never_arrived": 0,
        },
        "balanced": True,
        "complete": True,
        "p50_ms": [450.0, 450.0],
        "unchanged": True,
        "workers_run": sys.executable,
        "note": "Spark's Java process ended",
    }
    assert list((tmp_path / "scratch").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "scratch", "segments", "tools"]
