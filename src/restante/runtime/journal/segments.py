"""Journal rows as Parquet segments that appear whole or not at all, each with its manifest (SPEC 13.1).

A segment's name says whose facts it holds and which: shipping again after a crash writes the same file again. Facts
added meanwhile make it a longer one beside it; a fact that is in both is known by its event_id. A fact counts as
shipped only once its segment and manifest are on disk under their names.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from restante.model.errors import StoreUnusable
from restante.model.ids import event_number
from restante.model.journal import JournalRow
from restante.runtime.sqlite.journal import Journal
from restante.wire.journal_rows import FIELDS, SCHEMA_VERSION, to_record
from restante.wire.segment_manifest import Manifest, encode_manifest

ROWS_PER_SEGMENT: Final = 100_000
MANIFEST_PREFIX: Final = "_"  # Spark, like all of its family, passes over such names
MANIFEST_SUFFIX: Final = ".manifest.json"
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


def ship(journal: Journal, directory: Path, *, on_segment: Callable[[int], None] = lambda _rows: None) -> list[Path]:
    """Every fact that has not left yet, as segments in `directory`; `on_segment` is told the rows of each."""
    shipped = []
    while rows := next_rows(journal):
        shipped.append(write_segment(rows, directory))
        mark_shipped(journal, rows)
        on_segment(len(rows))
    return shipped


def next_rows(journal: Journal) -> list[JournalRow]:
    """The oldest facts that have not left, as many as one segment holds."""
    return journal.facts(after=journal.shipped_through(), limit=ROWS_PER_SEGMENT)


def mark_shipped(journal: Journal, rows: list[JournalRow]) -> None:
    """To be said only after `write_segment` has returned for these rows."""
    journal.mark_shipped(event_number(rows[-1].event_id))


def manifest_path(segment: Path) -> Path:
    """Where the manifest of a segment lies."""
    return segment.with_name(f"{MANIFEST_PREFIX}{segment.stem}{MANIFEST_SUFFIX}")


def write_segment(rows: list[JournalRow], directory: Path) -> Path:
    """One segment and its manifest, each closed by an atomic rename; on disk when this returns."""
    first, last = (event_number(row.event_id) for row in (rows[0], rows[-1]))
    final = directory / f"{rows[0].writer.hex()}-{first:016d}-{last:016d}.parquet"
    table = pa.Table.from_pylist([to_record(row) for row in rows], schema=SEGMENT_SCHEMA)
    sink = pa.BufferOutputStream()
    # Checksums, so that a reader notices damage inside a page (fleet.segments asks for them).
    parquet.write_table(table, sink, compression="zstd", write_page_checksum=True)
    raw = sink.getvalue().to_pybytes()
    manifest = Manifest(
        segment=final.name,
        writer=rows[0].writer.hex(),
        first=first,
        last=last,
        rows=len(rows),
        size_bytes=len(raw),
        schema_version=SCHEMA_VERSION,
        sha256=hashlib.sha256(raw).hexdigest(),
    )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _remove_abandoned_drafts(directory, rows[0].writer.hex())
        # The segment first: a manifest never speaks of a file that is not there.
        _write_whole(final, raw)
        _write_whole(manifest_path(final), encode_manifest(manifest))
        _sync_directory(directory)
    except OSError as error:
        raise StoreUnusable(f"a journal segment cannot be written: {error}") from error
    return final


def _write_whole(final: Path, raw: bytes) -> None:
    # The process in its name: two that ship the same file at once do not write into each other's draft.
    partial = final.with_name(f".{final.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(final)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def _remove_abandoned_drafts(directory: Path, writer: str) -> None:
    """What killed processes of this writer left; a draft is never read by anybody."""
    for draft in directory.glob(f".*{writer}-*.partial"):
        _, pid, _ = draft.name.rsplit(".", 2)
        if not pid.isdigit() or not Path(f"/proc/{pid}").exists():
            draft.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
