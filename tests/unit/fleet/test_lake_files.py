"""Files of a lake that others put there, and what the commands without Spark do to it."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from restante.fleet.lake.layout import Lake
from restante.fleet.lake.query import query
from restante.fleet.lake.segments import find_segments
from restante.fleet.lake.upkeep import forget
from restante.model.errors import Malformed
from restante.model.journal import JournalKind
from restante.wire.segment_manifest import manifest_name
from support.fleet.journal_files import Journal, message, records, write_segment, writer
from support.fleet.signed_segments import ship_chain
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000


def journal_of(number: int) -> Journal:
    journal = Journal(writer(number))
    journal.write(JournalKind.ACCEPTED, message(number), NOON_MS)
    return journal


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    write_deltalake(str(tmp_path / "tables" / "numbers"), pa.table({"n": [1, 2]}))
    (tmp_path / "segments").mkdir()
    return Lake(str(tmp_path))


@clause("13.1")
def test_pipes_and_devices_among_the_segments_and_manifests_hold_nobody(lake: Lake) -> None:
    [good] = ship_chain(lake.local_segments, journal_of(1).rows, sizes=1)
    os.mkfifo(lake.local_segments / "pipe.parquet")
    (lake.local_segments / "endless.parquet").symlink_to("/dev/zero")
    write_segment(lake.local_segments / "other.parquet", records(journal_of(2).rows))
    os.mkfifo(lake.local_segments / manifest_name("other.parquet"))
    found, bad = find_segments(lake.local_segments)
    assert {segment.path.name for segment in found} == {good.name, "other.parquet"}
    why = "cannot be read: it is no regular file"
    assert {(each.name, each.reason) for each in bad} == {
        ("pipe.parquet", why),
        ("endless.parquet", why),
        (manifest_name("other.parquet"), why),
    }
    forget(lake, writer(2))
    assert not (lake.local_segments / "other.parquet").exists()


@clause("13.3")
def test_what_a_killed_writer_left_is_forgotten_with_it(lake: Lake) -> None:
    [segment] = ship_chain(lake.local_segments, journal_of(1).rows, sizes=1)
    [other] = ship_chain(lake.local_segments, journal_of(2).rows, sizes=1)
    never_came = f"{writer(1).hex()}-{7:016}-{8:016}.parquet"
    lost = [manifest_name(never_came), f".{never_came}.4711-0.partial"]
    for name in lost:
        (lake.local_segments / name).write_bytes(segment.read_bytes())
    forget(lake, writer(1))
    assert {path.name for path in lake.local_segments.iterdir()} == {other.name, manifest_name(other.name)}


@clause("13.3")
@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT * FROM numbers) TO '{}' STORED AS CSV",
        "explain analyze copy (select 1) to '{}' stored as csv",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '{}'",
        "/* SELECT */ COPY numbers TO '{}'",
    ],
)
def test_a_query_reads_the_tables_and_writes_or_reads_no_other_file(lake: Lake, tmp_path: Path, sql: str) -> None:
    there = tmp_path / "there"
    with pytest.raises(Malformed, match="SELECT"):
        query(lake, sql.format(there))
    assert not there.exists()
    assert query(lake, "\n with n as (select n from numbers) select sum(n) as s from n").to_pylist() == [{"s": 3}]
    assert query(lake, "(SELECT count(*) AS c FROM numbers)").to_pylist() == [{"c": 2}]
