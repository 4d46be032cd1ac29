"""One backfill on every kind of master gives the same tables row for row, also when a worker dies in the middle."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from restante.fleet.jobs.backfill import backfill
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.query import summaries
from restante.fleet.lake.segments import find_segments
from restante.fleet.tables.definitions import TABLES as TABLES_OF_A_LAKE
from restante.model.ids import PayloadHash, SessionTag
from restante.model.journal import JournalKind
from restante.policy.settings import Settings
from support.fleet import backfill_process
from support.fleet.journal_files import Journal, message, records, write_segment, writer
from support.fleet.spark_clusters import LIMIT_S, cluster_environ, standalone_cluster
from support.spec.clauses import clause
from support.system.programs import command

NOON_MS = 1_767_614_400_000
HOUR_MS = 3_600_000
WRITERS = 6
ARRIVALS = 40
TABLES = ("events", "arrivals", "quarantine")

Table = list[dict[str, Any]]


def recipient(number: int) -> Journal:
    """Arrivals over three days: some twice, some out of order, one in ten missing."""
    journal = Journal(writer(number))
    for place in range(ARRIVALS):
        sequence = (place ^ (place % 4 >= 2)) if place % 7 else place // 2
        if sequence % 10 == 9:
            continue
        journal.write(
            JournalKind.ARRIVED,
            message(1_000 * number + sequence),
            NOON_MS + place * 2 * HOUR_MS,
            session_tag=SessionTag(bytes([number]) * 16),
            sequence=sequence,
            payload_hash=PayloadHash(number.to_bytes(2, "big") * 15 + sequence.to_bytes(2, "big")),
            code="new",
        )
    return journal


def lake_in(directory: Path) -> Lake:
    lake = Lake(str(directory))
    lake.local_segments.mkdir(parents=True)
    for number in range(1, WRITERS + 1):
        rows = records(recipient(number).rows)
        half = len(rows) // 2
        write_segment(lake.local_segments / f"{number}-b.parquet", rows[:half])
        write_segment(lake.local_segments / f"{number}-a.parquet", rows[half - 3 :])  # three of them twice
    whole = (lake.local_segments / "1-a.parquet").read_bytes()
    (lake.local_segments / "cut.parquet").write_bytes(whole[:-9])
    return lake


def started(lake: Lake, master: str, environ: Mapping[str, str], *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*command(backfill_process), lake.root, master, *more],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it said at its end."""
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    done: dict[str, Any] = json.loads(said.splitlines()[-1])
    return done


def tables_of(lake: Lake) -> dict[str, Table]:
    read = {}
    for name in TABLES:
        table = DeltaTable(lake.table(name)).to_pyarrow_table()
        read[name] = sorted(table.to_pylist(), key=lambda row: (row["event_id"] or b"", row.get("source_file")))
    return read


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Table]]:
    """By a master inside the process, as everywhere else in these tests."""
    lake = lake_in(tmp_path_factory.mktemp("local") / "lake")
    made = backfill(spark, lake, Settings(), *find_segments(lake.local_segments), is_published=False)
    done: dict[str, Any] = json.loads(json.dumps(asdict(made)))
    tables = tables_of(lake)
    assert [len(tables[name]) for name in TABLES] == [done["events"], done["events"], 1]
    assert done["duplicates"] == 3 * WRITERS
    assert {row["verdict"] for row in tables["arrivals"]} == {"new", "duplicate"}
    return done, tables


Expected = tuple[dict[str, Any], dict[str, Table]]


@pytest.mark.soak  # the standalone master below shows the same and more
@clause("13.2")
def test_a_local_cluster_of_two_processes_makes_the_same_tables(tmp_path: Path, expected: Expected) -> None:
    lake = lake_in(tmp_path / "lake")
    done = ended(started(lake, "local-cluster[2,1,2048]", cluster_environ(), "published"))
    assert (done, tables_of(lake)) == expected
    assert {one.name for one in summaries(lake)} >= TABLES_OF_A_LAKE.keys()


@clause("13.2", "13.9")
def test_a_standalone_master_makes_the_same_tables_though_a_worker_is_killed_in_the_middle(
    tmp_path: Path, expected: Expected
) -> None:
    lake, environ = lake_in(tmp_path / "lake"), cluster_environ()
    with standalone_cluster(tmp_path, environ) as cluster:
        process = started(lake, cluster.master, environ)
        assert process.stdout is not None
        while process.stdout.readline().strip() != "writing events":  # what was validated lies on both workers
            assert process.poll() is None
        cluster.workers[0].kill()
        assert (ended(process), tables_of(lake)) == expected
