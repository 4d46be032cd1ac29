"""Journal rows as Parquet segments that appear whole or not at all, each with its manifest (SPEC 13.1).

A segment's name says whose facts it holds and which: shipping again after a crash writes the same file again. Facts
added meanwhile make it a longer one beside it; a fact that is in both is known by its event_id. A fact counts as
shipped only once its segment and manifest are in their place under their names.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from restante.model.ids import WriterId, event_id
from restante.runtime.journal.places import Place
from restante.runtime.sqlite.journal import Journal
from restante.wire.journal_rows import FIELDS, SCHEMA_VERSION
from restante.wire.segment_manifest import Manifest, encode_manifest, manifest_name

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSegment:
    """The bytes of a segment and of its manifest, in memory. `last` is the number of its newest fact."""

    name: str
    raw: bytes
    manifest: bytes
    rows: int
    last: int


def ship(journal: Journal, place: Place, *, on_segment: Callable[[int], None] = lambda _rows: None) -> list[str]:
    """Every fact that has not left yet, as segments in `place`; `on_segment` is told the rows of each."""
    shipped = []
    while (segment := ship_next(place, journal)) is not None:
        journal.mark_shipped(segment.last)
        on_segment(segment.rows)
        shipped.append(segment.name)
    return shipped


def ship_next(place: Place, journal: Journal, /) -> PackedSegment | None:
    """The oldest facts that have not left, in a segment in `place`; None when all have left.

    Only after this the facts may be marked as shipped.
    """
    columns = journal.columns(after=journal.shipped_through(), limit=ROWS_PER_SEGMENT)
    if not columns:
        return None
    segment = pack(journal.writer, columns)
    # The segment first: a manifest never speaks of a file that is not there.
    place.put(segment.name, segment.raw)
    place.put(manifest_name(segment.name), segment.manifest)
    return segment


def pack(writer: WriterId, columns: Sequence[Sequence[Any]]) -> PackedSegment:
    """`columns` are the numbers of the facts, then the journal's columns but for event_id and writer."""
    numbers, *values = columns
    given = iter(values)
    made = {"event_id": [event_id(writer, number) for number in numbers], "writer": [writer] * len(numbers)}
    arrays = [pa.array(made.get(field.name) or next(given), field.type) for field in SEGMENT_SCHEMA]
    sink = pa.BufferOutputStream()
    # Checksums, so that a reader notices damage inside a page (fleet.segments asks for them).
    table = pa.Table.from_arrays(arrays, schema=SEGMENT_SCHEMA)
    parquet.write_table(table, sink, compression="zstd", write_page_checksum=True)
    raw = sink.getvalue().to_pybytes()
    first, last = numbers[0], numbers[-1]
    name = f"{writer.hex()}-{first:016d}-{last:016d}.parquet"
    manifest = Manifest(
        segment=name,
        writer=writer.hex(),
        first=first,
        last=last,
        rows=len(numbers),
        size_bytes=len(raw),
        schema_version=SCHEMA_VERSION,
        sha256=hashlib.sha256(raw).hexdigest(),
    )
    return PackedSegment(name=name, raw=raw, manifest=encode_manifest(manifest), rows=len(numbers), last=last)
