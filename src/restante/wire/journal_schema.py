"""The columns of the journal (SPEC 13.1), declared once.

The SQLite table, its INSERT and SELECT, the Parquet and Spark schemas and the table in the docs are derived from
`FIELDS`. `from_record` checks a record against them and raises `Malformed` with the column and the reason. What an
event means for its message is decided elsewhere.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from restante.model.errors import Malformed
from restante.model.ids import MAX_SEQUENCE, message_id
from restante.model.journal import JournalEvent, JournalKind
from restante.model.kinds import Kind, Priority
from restante.wire.field_checks import MAX_TIME_MS, MAX_U32

SCHEMA_VERSION: Final = 1
MAX_ATTEMPT: Final = 2**31 - 1  # the end of an int32 column
CODE_PATTERN: Final = "[A-Za-z0-9_]{1,40}"
_SHARED_BYTES: Final = 8  # of writer and event id, see model.ids.event_id

_SHOWN_CHARACTERS: Final = 40  # of a name that somebody else chose

MAX_PATH_BYTES: Final = 32 * 32  # of a Merkle path: 2^32 leaves in one commit
MAX_ANSWER_BYTES: Final = 8_192  # FETCH_DONE and two neighbours with their paths

ColumnType = Literal["binary", "int32", "int64", "string"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalField:
    """One column. `low` and `high` bound an integer, or the number of bytes of a binary value. A string is one of
    `words` or matches all of `pattern`."""

    name: str
    type: ColumnType
    nullable: bool = True
    doc: str
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()
    pattern: str = ""

    @property
    def size_rule(self) -> str:
        """Say how many bytes a binary value must have."""
        return f"have {self.low} bytes" if self.low == self.high else f"have {self.low} to {self.high} bytes"


FIELDS: Final[tuple[JournalField, ...]] = (
    JournalField(
        name="event_id",
        type="binary",
        low=16,
        high=16,
        nullable=False,
        doc="first 8 bytes of the writer, then the number of this event among the writer's events, u64",
    ),
    JournalField(
        name="at_ms",
        type="int64",
        nullable=False,
        high=MAX_TIME_MS,
        doc="when it happened, by the writer's clock",
    ),
    JournalField(
        name="kind",
        type="string",
        nullable=False,
        words=tuple(kind.value for kind in JournalKind),
        doc="what happened",
    ),
    JournalField(
        name="writer",
        type="binary",
        low=16,
        high=16,
        nullable=False,
        doc="id of the journal writer; random, not an address",
    ),
    JournalField(name="message_id", type="binary", low=16, high=16, doc="UUIDv4; endpoints know it, nodes do not"),
    JournalField(
        name="session_tag",
        type="binary",
        low=16,
        high=16,
        doc="keyed hash of a session, or of an inbox at a node; per writer",
    ),
    JournalField(
        name="sequence",
        type="int64",
        high=MAX_SEQUENCE,
        doc="number in its session and direction; the first of a range",
    ),
    JournalField(
        name="payload_hash",
        type="binary",
        low=32,
        high=32,
        doc="SHA-256 of the sealed bytes; joins endpoints and nodes",
    ),
    JournalField(name="size_bytes", type="int64", high=MAX_U32, doc="size of the padded envelope"),
    JournalField(
        name="message_kind",
        type="string",
        words=tuple(kind.value for kind in Kind),
        doc="kind of message; endpoints only",
    ),
    JournalField(name="priority", type="int32", low=min(Priority), high=max(Priority), doc="0 low, 1 normal, 2 high"),
    JournalField(name="attempt", type="int32", high=MAX_ATTEMPT, doc="number of the attempt to send, from 1"),
    JournalField(name="code", type="string", pattern=CODE_PATTERN, doc="why: an error code, a verdict or a reason"),
    JournalField(name="node", type="binary", low=32, high=32, doc="id of the node it happened with"),
    JournalField(
        name="latency_ms",
        type="int64",
        low=-MAX_TIME_MS,
        high=MAX_TIME_MS,
        doc="time since the event it answers; below zero where two clocks disagree",
    ),
    JournalField(name="ttl_s", type="int64", high=MAX_U32, doc="TTL of the message in seconds"),
    JournalField(
        name="last_sequence", type="int64", high=MAX_SEQUENCE, doc="end of a range of numbers that begins at sequence"
    ),
    JournalField(
        name="previous_session_tag",
        type="binary",
        low=16,
        high=16,
        doc="tag of the session that session_tag replaces as the current one",
    ),
    JournalField(
        name="evidence_inner_hash",
        type="binary",
        low=32,
        high=32,
        doc="storage receipt: SHA-256 of inbox key and expiry, from which the leaf is computed",
    ),
    JournalField(
        name="evidence_path", type="binary", high=MAX_PATH_BYTES, doc="storage receipt: Merkle path from leaf to root"
    ),
    JournalField(
        name="evidence_root", type="binary", low=32, high=32, doc="storage receipt: Merkle root of the commit"
    ),
    JournalField(
        name="evidence_at_ms", type="int64", high=MAX_TIME_MS, doc="storage receipt: time by the node's clock"
    ),
    JournalField(
        name="evidence_signature", type="binary", low=64, high=64, doc="storage receipt: the node's signature"
    ),
    JournalField(
        name="answer",
        type="binary",
        high=MAX_ANSWER_BYTES,
        doc="signed FETCH_DONE and the two neighbours that show an absence",
    ),
)

_NAMES: Final = frozenset(field.name for field in FIELDS)
COLUMNS: Final = tuple(field.name for field in FIELDS if field.name not in {"event_id", "writer"})
"""What a journal's own table stores: event_id and writer follow from the event's number and the file."""


def sqlite_columns() -> str:
    """Return the column definitions of a journal table in SQLite."""
    types = {"binary": "BLOB", "int32": "INTEGER", "int64": "INTEGER", "string": "TEXT"}
    stored = [field for field in FIELDS if field.name in COLUMNS]
    return ", ".join(f"{field.name} {types[field.type]}{'' if field.nullable else ' NOT NULL'}" for field in stored)


def to_record(row: JournalEvent) -> dict[str, object]:
    """One value a column, in the order of FIELDS, as bytes, int, str or None."""
    record: dict[str, object] = {field.name: getattr(row, field.name) for field in FIELDS}
    record["kind"] = row.kind.value
    record["message_kind"] = None if row.message_kind is None else row.message_kind.value
    record["priority"] = None if row.priority is None else row.priority.value
    return record


def from_record(record: Mapping[str, object]) -> JournalEvent:
    """The row a record stands for. Every column must be there, and no other."""
    unknown = record.keys() - _NAMES
    if unknown:
        name = min(map(str, unknown))[:_SHOWN_CHARACTERS]
        raise Malformed(f"{name!r} is no column of schema version {SCHEMA_VERSION}")
    for field in FIELDS:
        if field.name not in record:
            raise Malformed(f"{field.name}: the column is missing")
        reason = _fault(field, record[field.name])
        if reason:
            raise Malformed(f"{field.name}: {reason}")
    values = cast("dict[str, Any]", dict(record))  # each value has the type of its column now
    _check_message_id(values["message_id"])
    if values["event_id"][:_SHARED_BYTES] != values["writer"][:_SHARED_BYTES]:
        raise Malformed(f"event_id: must start with the first {_SHARED_BYTES} bytes of the writer")
    values["kind"] = JournalKind(values["kind"])
    if values["message_kind"] is not None:
        values["message_kind"] = Kind(values["message_kind"])
    if values["priority"] is not None:
        values["priority"] = Priority(values["priority"])
    return JournalEvent(**values)


def _check_message_id(raw: bytes | None) -> None:
    try:
        if raw is not None:
            message_id(raw)
    except Malformed:
        raise Malformed("message_id: must be a UUIDv4") from None


def _fault(field: JournalField, value: object) -> str:
    """What is wrong with `value` in that column; empty when nothing is."""
    if value is None:
        return "" if field.nullable else "must not be null"
    if field.type == "binary":
        return _binary_fault(field, value)
    if field.type == "string":
        return _string_fault(field, value)
    return _integer_fault(field, value)


def _binary_fault(field: JournalField, value: object) -> str:
    if not isinstance(value, bytes):
        return f"must be bytes, not {type(value).__name__}"
    return "" if field.low <= len(value) <= field.high else f"must {field.size_rule}, not {len(value)}"


def _integer_fault(field: JournalField, value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return f"must be an integer, not {type(value).__name__}"
    return "" if field.low <= value <= field.high else f"must be in {field.low}..{field.high}"


def _string_fault(field: JournalField, value: object) -> str:
    if not isinstance(value, str):
        return f"must be a string, not {type(value).__name__}"
    if field.words:
        return "" if value in field.words else f"must be one of {', '.join(field.words)}"
    return "" if re.fullmatch(field.pattern, value) else f"must match {field.pattern}"
