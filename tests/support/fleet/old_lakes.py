"""A lake whose stream read a fleet with a past, and what retention leaves of it."""

from collections import Counter
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from restante.fleet.jobs.retention import retain
from restante.fleet.lake.layout import Lake
from restante.fleet.stream.batches import Catalog, last_catalog, open_batches
from restante.model.ids import event_number
from restante.model.journal import JournalKind
from restante.policy.settings import Settings
from support.fleet.incremental_lakes import update
from support.fleet.journal_files import Record, records, write_segment
from support.fleet.old_fleet import DAYS, FIRST_DAY, LATE, OLD_DAY, TODAY, fleet_with_past
from support.fleet.troubled_fleet import NOON_MS, NOW_MS

SETTINGS = Settings()
BASE_TABLES = ("events", "arrivals")
FEW_FILES = {"files": 9, "size_bytes": 10**9}


def is_late(row: Record) -> bool:
    sender = fleet_with_past()[0].writer
    return row["writer"] == sender and event_number(row["event_id"]) == LATE  # type: ignore[arg-type]


def is_old(row: Record) -> bool:
    return int(str(row["at_ms"])) < NOON_MS - 10 * 86_400_000


def shipped_rows() -> list[Record]:
    return [row for journal in fleet_with_past() for row in records(journal.rows)]


def make_old_lake(spark: SparkSession, root: Path) -> None:
    """A lake with all old events but one that is late, and every third later one; its tables are published."""
    lake = Lake(str(root))
    lake.local_segments.mkdir()
    shipped = shipped_rows()
    old = [row for row in shipped if is_old(row) and not is_late(row)]
    new = [row for row in shipped if not is_old(row)]
    write_segment(lake.local_segments / "old.parquet", old)
    write_segment(lake.local_segments / "part.parquet", new[::3])
    assert update(spark, lake) == 1


def more_rows() -> list[Record]:
    """An event that comes after all others."""
    sender = fleet_with_past()[0]
    sender.write(JournalKind.SECURITY, None, NOW_MS, code="collision")
    return records(sender.rows[-1:])


def retained(lake: Lake) -> dict[str, int]:
    return {one.table: one.rows_deleted for one in retain(lake, SETTINGS, days=DAYS, today=TODAY)}


def catalog_of(lake: Lake) -> Catalog:
    found = last_catalog(open_batches(lake))
    assert found is not None
    return found


def days_on_disk(lake: Lake) -> set[str]:
    return {path.name for name in BASE_TABLES for path in Path(lake.table(name)).glob("day=*")}


def rows_of(lake: Lake, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(lake.table(name)).to_pyarrow_table().to_pylist()
    return rows


def rows_by_day(lake: Lake, name: str) -> Counter[str]:
    return Counter(str(row["day"]) for row in rows_of(lake, name))


def check_deleted(lake: Lake) -> None:
    """Old days are in no table, and no byte of their files is on the disk."""
    assert catalog_of(lake).retained_from == FIRST_DAY
    for name in BASE_TABLES:
        assert min(rows_by_day(lake, name)) >= FIRST_DAY
    assert min(days_on_disk(lake)) > f"day={OLD_DAY}"
