"""Journals for tests: facts numbered as their writers number them, and segments as they lie in a directory."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from restante.model.ids import EventId, MessageId, NodeId, PayloadHash, WriterId, event_id, event_number
from restante.model.journal import JournalEvent, JournalKind
from restante.wire.journal_schema import FIELDS, to_record

ARROW_TYPES = {
    "binary": pa.binary(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
}
SEGMENT = pa.schema([(field.name, ARROW_TYPES[field.type]) for field in FIELDS])

Record = Mapping[str, object]


def message(number: int) -> MessageId:
    """A UUIDv4 that shows its number."""
    return MessageId(number.to_bytes(6, "big") + b"\x40\x00\x80" + bytes(7))


def writer(number: int) -> WriterId:
    return WriterId(number.to_bytes(8, "big") + b"-writer-")


def sealed(number: int) -> PayloadHash:
    return PayloadHash(number.to_bytes(4, "big") * 8)


def node_id(number: int) -> NodeId:
    return NodeId(b"node" + number.to_bytes(28, "big"))


class Journal:
    """One writer's facts, numbered from 1 without holes."""

    def __init__(self, writer_id: WriterId) -> None:
        self.writer = writer_id
        self.rows: list[JournalEvent] = []

    def write(self, kind: JournalKind, message_id: MessageId | None, at_ms: int, **fields: Any) -> EventId:
        number = event_id(self.writer, len(self.rows) + 1)
        self.rows.append(
            JournalEvent(event_id=number, at_ms=at_ms, kind=kind, writer=self.writer, message_id=message_id, **fields)
        )
        return number


def records(rows: Iterable[JournalEvent]) -> list[Record]:
    return [to_record(row) for row in rows]


def write_segment(path: Path, rows: Sequence[Record], **options: Any) -> Path:
    parquet.write_table(pa.Table.from_pylist(list(rows), schema=SEGMENT), path, compression="zstd", **options)
    return path


def shipped_numbers(directory: Path) -> list[int]:
    """The numbers of all facts that were shipped there, as often as they were."""
    columns = [parquet.read_table(path, columns=["event_id"])["event_id"] for path in directory.glob("*.parquet")]
    return sorted(event_number(value) for column in columns for value in column.to_pylist())
