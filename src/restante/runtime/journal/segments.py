"""Journal rows as Parquet segments that appear whole or not at all (SPEC 13.1).

A segment's name says whose facts it holds and which: shipping again after a crash writes the same file again. Facts
added meanwhile make it a longer one beside it; a fact that is in both is known by its event_id.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from restante.model.errors import StoreUnusable
from restante.model.ids import event_number
from restante.model.journal import JournalRow
from restante.runtime.sqlite.journal import Journal
from restante.wire.journal_rows import FIELDS, SCHEMA_VERSION, to_record

ROWS_PER_SEGMENT: Final = 100_000
_ARROW_TYPES: Final = {
    "binary16": pa.binary(),
    "binary32": pa.binary(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
}
SEGMENT_SCHEMA: Final = pa.schema(
    [pa.field(field.name, _ARROW_TYPES[field.type], field.nullable) for field in FIELDS],
    metadata={"restante.schema_version": str(SCHEMA_VERSION)},
)


def ship(journal: Journal, directory: Path) -> list[Path]:
    """Every fact that has not left yet, as segments in `directory`."""
    shipped = []
    while rows := journal.facts(after=journal.shipped_through(), limit=ROWS_PER_SEGMENT):
        shipped.append(write_segment(rows, directory))
        journal.mark_shipped(event_number(rows[-1].event_id))
    return shipped


def write_segment(rows: list[JournalRow], directory: Path) -> Path:
    """One segment, closed by an atomic rename."""
    first, last = (event_number(row.event_id) for row in (rows[0], rows[-1]))
    final = directory / f"{rows[0].writer.hex()}-{first:016d}-{last:016d}.parquet"
    partial = final.with_name(f".{final.name}.partial")
    table = pa.Table.from_pylist([to_record(row) for row in rows], schema=SEGMENT_SCHEMA)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            # Checksums, so that a reader notices damage inside a page (fleet.segments asks for them).
            parquet.write_table(table, file, compression="zstd", write_page_checksum=True)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(final)
        _sync_directory(directory)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise StoreUnusable(f"a journal segment cannot be written: {error}") from error
    return final


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
