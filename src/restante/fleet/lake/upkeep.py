"""Upkeep of a lake's tables without Spark: compaction, retention, and the erasure of one writer (SPEC 13.3)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import parquet

from restante.fleet.lake.backfill_manifest import RECORD
from restante.fleet.lake.delta import exists
from restante.fleet.lake.layout import STREAM, Lake
from restante.fleet.lake.new_files import delete_file, delete_tree, list_files, open_file
from restante.fleet.lake.query import open_all
from restante.model.errors import ConfigurationInvalid, StoreUnusable
from restante.model.ids import WriterId
from restante.wire.segment_manifest import SEGMENT_SUFFIX, manifest_name

DAY_PARTITIONED: Final = ("events", "arrivals")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What was done to one table."""

    table: str
    files_before: int
    files_after: int
    rows_deleted: int = 0


def compact(lake: Lake) -> list[Upkeep]:
    """Merge small files of the tables that no stream keeps. A stream merges its own files as it goes on."""
    _check_no_stream(lake, "a stream compacts its tables itself")
    done = []
    for name, table in open_all(lake).items():
        before = len(table.file_uris())
        with _explained(name):
            table.optimize.compact()
            table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        done.append(Upkeep(table=name, files_before=before, files_after=len(table.file_uris())))
    return done


def retain(lake: Lake, *, days: int, today: str) -> list[Upkeep]:
    """Delete days of a backfill's events and arrivals older than `days` before `today`, and the bytes of their files.

    Days that a stream keeps are deleted by a batch of the stream (jobs/retention).
    """
    _check_no_stream(lake, "its own batches delete old days")
    tables = {name: table for name, table in open_all(lake).items() if name in DAY_PARTITIONED}
    return [_delete(name, table, f"day < date '{today}' - interval '{days} days'") for name, table in tables.items()]


def forget(lake: Lake, writer: WriterId) -> list[Upkeep]:
    """Delete every byte of one writer below the lake: its segments, its rows, and the logs that named them.

    The state of a stream cannot lose a writer: the stream's tables are deleted whole, and its next start makes them
    again from the segments that are left.
    """
    segments = _segments_of(lake, writer)
    for name in segments:
        delete_file(lake.segments, manifest_name(name))
        delete_file(lake.segments, name)
    for name in _left_by(lake, writer):
        delete_file(lake.segments, name)
    if exists(lake.stream_table("batches")):
        delete_tree(f"{lake.root.rstrip('/')}/{STREAM}")
        delete_tree(lake.tables)
        return []
    done = []
    for name, table in open_all(lake).items():
        if clauses := _clauses(table, prefix=writer[:8].hex(), whole=writer.hex()):
            done.append(_delete(name, table, " or ".join(clauses)))
    delete_file(lake.tables, RECORD)
    return done


def _segments_of(lake: Lake, writer: WriterId) -> list[str]:
    """The segments that hold rows of this writer. One that also holds rows of another is named, and nothing is done."""
    found = []
    for name in sorted(list_files(lake.segments)):
        if not name.endswith(SEGMENT_SUFFIX) or name.startswith("_"):
            continue
        try:
            writers = set(parquet.read_table(open_file(lake.segments, name), columns=["writer"])["writer"].to_pylist())
        except (OSError, pa.ArrowException):
            writers = {bytes(writer)} if name.startswith(writer.hex()) else set()
        if bytes(writer) in writers and len(writers) > 1:
            raise StoreUnusable(f"segment {name} holds events of several writers; delete it, then repeat the command")
        if bytes(writer) in writers:
            found.append(name)
    return found


def _left_by(lake: Lake, writer: WriterId) -> list[str]:
    """Drafts of segments, and manifests of which the segment never came: what a killed process of the writer left."""
    names = sorted(list_files(lake.segments))
    return [name for name in names if name.startswith(("_", ".")) and name.lstrip("._").startswith(writer.hex())]


def _clauses(table: DeltaTable, *, prefix: str, whole: str) -> list[str]:
    """Conditions for the rows of a writer: by its id, by the event ids it gave, by the files it shipped."""
    columns = {field.name for field in table.schema().fields}
    found = [f"encode({name}, 'hex') = '{whole}'" for name in ("writer", "sender", "target") if name in columns]
    if "event_id" in columns:
        found.append(f"encode(event_id, 'hex') like '{prefix}%'")
    if "source_file" in columns:
        found.append(f"source_file like '%{whole}%'")
    return found


def _delete(name: str, table: DeltaTable, predicate: str) -> Upkeep:
    """Delete rows, then their files and the log entries that still name them."""
    before = len(table.file_uris())
    with _explained(name):
        deleted = int(table.delete(predicate)["num_deleted_rows"])
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
        table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        table.create_checkpoint()
        table.cleanup_metadata()
    return Upkeep(table=name, files_before=before, files_after=len(table.file_uris()), rows_deleted=deleted)


def _check_no_stream(lake: Lake, advice: str) -> None:
    if exists(lake.stream_table("batches")):
        raise ConfigurationInvalid(f"a stream keeps the tables of {lake.root}: {advice}")


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except DeltaError as error:
        raise StoreUnusable(f"table {name} cannot be changed: {error}") from error
