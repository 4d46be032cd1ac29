"""Journal rows as Parquet segments that appear whole or not at all, each with its manifest (SPEC 13.1).

A segment's name says whose events it holds and which: shipping again after a crash writes the same file again. Events
added meanwhile make it a longer one beside it; an event that is in both is known by its event_id. An event counts as
shipped only once its segment and manifest are in their depot under their names.

A manifest names the hash of the one before and is signed. It is put before its segment, so that a reader that finds a
segment finds its manifest, too.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from restante.core.fleet.signed_manifests import manifest_digest, sign_manifest
from restante.crypto.journal_key import JournalKey
from restante.model.ids import WriterId, event_id
from restante.runtime.journal.segment_directory import SegmentStore
from restante.runtime.sqlite.file.journal import Journal
from restante.wire.journal_schema import FIELDS, SCHEMA_VERSION
from restante.wire.segment_manifest import Manifest, encode_manifest, manifest_name

ROWS_PER_SEGMENT: Final = 100_000
ROWS_PER_SLICE: Final = 10_000
_ARROW_TYPES: Final = {
    "binary": pa.binary(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
}
SEGMENT_SCHEMA: Final = pa.schema(
    [pa.field(field.name, _ARROW_TYPES[field.type], field.nullable) for field in FIELDS],
    metadata={"restante.schema_version": str(SCHEMA_VERSION)},
)

Columns = Sequence[Sequence[Any]]
"""The numbers of events, then the journal's columns but for event_id and writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSegment:
    """The bytes of a segment and of its manifest, in memory.

    `last` is the journal's number of its newest event, `digest` the hash of the manifest.
    """

    name: str
    raw: bytes
    manifest: bytes
    rows: int
    last: int
    digest: bytes


def ship(
    journal: Journal,
    depot: SegmentStore,
    *,
    key: JournalKey | None = None,
    now_ms: int | None = None,
    on_segment: Callable[[int], None] = lambda _rows: None,
) -> list[str]:
    """Ship every event that has not left yet, as segments in `depot`; `on_segment` gets the rows of each."""
    shipped = []
    while (segment := ship_next(depot, journal, key=key)) is not None:
        journal.mark_shipped(segment.last, manifest=segment.digest, at_ms=now_ms)
        on_segment(segment.rows)
        shipped.append(segment.name)
    return shipped


def ship_next(depot: SegmentStore, journal: Journal, /, *, key: JournalKey | None = None) -> PackedSegment | None:
    """The oldest events that have not left, in a segment in `depot`; None when all have left.

    Only after this the events may be marked as shipped.
    """
    through, previous = journal.shipping_state()
    slices = _slices(journal, through)
    segment = pack(journal.writer, slices, before=journal.before_writer, previous=previous, key=key)
    if segment is None:
        return None
    depot.put(manifest_name(segment.name), segment.manifest)
    depot.put(segment.name, segment.raw)
    return segment


def pack(
    writer: WriterId,
    slices: Iterable[Columns],
    *,
    before: int = 0,
    previous: bytes | None = None,
    key: JournalKey | None = None,
) -> PackedSegment | None:
    """Slices follow each other; None if there are none. `previous` is the hash of the manifest before.

    `before` is the number of the newest event of an earlier writer of the same file: the writer's own start at 1.
    """
    first = last = 0
    tables = []
    for numbers, *values in slices:
        own = [number - before for number in numbers]
        first, last = first or own[0], own[-1]
        tables.append(_table(writer, own, values))
    if not tables:
        return None
    sink = pa.BufferOutputStream()
    # Checksums, so that a reader notices damage inside a page (fleet.segments asks for them).
    parquet.write_table(pa.concat_tables(tables), sink, compression="zstd", write_page_checksum=True)
    raw = sink.getvalue().to_pybytes()
    name = f"{writer.hex()}-{first:016d}-{last:016d}.parquet"
    manifest = Manifest(
        segment=name,
        writer=writer.hex(),
        first=first,
        last=last,
        rows=last - first + 1,
        size_bytes=len(raw),
        schema_version=SCHEMA_VERSION,
        sha256=hashlib.sha256(raw).hexdigest(),
        previous=None if previous is None else previous.hex(),
    )
    said = encode_manifest(manifest if key is None else sign_manifest(manifest, key))
    return PackedSegment(
        name=name,
        raw=raw,
        manifest=said,
        rows=manifest.rows,
        last=last + before,
        digest=manifest_digest(said),
    )


def _slices(journal: Journal, after: int) -> Iterator[Columns]:
    """The events of one segment, a few at a time: rows as Python has them take many times the memory of Arrow's."""
    left = ROWS_PER_SEGMENT
    while left and (columns := journal.columns(after=after, limit=min(ROWS_PER_SLICE, left))):
        yield columns
        after, left = columns[0][-1], left - len(columns[0])


def _table(writer: WriterId, numbers: Sequence[int], values: Columns) -> Any:
    given = iter(values)
    made = {"event_id": [event_id(writer, number) for number in numbers], "writer": [writer] * len(numbers)}
    arrays = [pa.array(made.get(field.name) or next(given), field.type) for field in SEGMENT_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SEGMENT_SCHEMA)
