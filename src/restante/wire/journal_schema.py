"""The columns of the journal (SPEC 13.1): one table, from which the SQLite, Parquet and Spark schemas are made.

A record read back is held against that table; what does not fit is Malformed, with the column and the reason, and
belongs into quarantine. What an event means for its message is not known here.
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

ColumnType = Literal["binary16", "binary32", "int32", "int64", "string"]
_BINARY_BYTES: Final[Mapping[str, int]] = {"binary16": 16, "binary32": 32}


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalField:
    """One column: `low` and `high` hold for integers; a string is one of `words` or matches all of `pattern`."""

    name: str
    type: ColumnType
    nullable: bool = True
    doc: str
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()
    pattern: str = ""


FIELDS: Final[tuple[JournalField, ...]] = (
    JournalField(
        name="event_id",
        type="binary16",
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
    JournalField(name="writer", type="binary16", nullable=False, doc="who wrote it down; random, not an address"),
    JournalField(name="message_id", type="binary16", doc="UUIDv4; endpoints know it, nodes do not"),
    JournalField(
        name="session_tag", type="binary16", doc="keyed hash of a session, or of an inbox at a node; per writer"
    ),
    JournalField(name="sequence", type="int64", high=MAX_SEQUENCE, doc="place in its session and direction"),
    JournalField(name="payload_hash", type="binary32", doc="SHA-256 of the sealed bytes; joins endpoints and nodes"),
    JournalField(name="size_bytes", type="int64", high=MAX_U32, doc="size of the padded envelope"),
    JournalField(
        name="message_kind",
        type="string",
        words=tuple(kind.value for kind in Kind),
        doc="kind of message; endpoints only",
    ),
    JournalField(name="priority", type="int32", low=min(Priority), high=max(Priority), doc="0 low, 1 normal, 2 high"),
    JournalField(name="attempt", type="int32", high=MAX_ATTEMPT, doc="which try to send this was, from 1"),
    JournalField(name="code", type="string", pattern=CODE_PATTERN, doc="why: an error code, a verdict or a reason"),
    JournalField(name="node", type="binary32", doc="id of the node it happened with"),
    JournalField(
        name="latency_ms",
        type="int64",
        low=-MAX_TIME_MS,
        high=MAX_TIME_MS,
        doc="time since the event it answers; below zero where two clocks disagree",
    ),
    JournalField(name="ttl_s", type="int64", high=MAX_U32, doc="life the message was given"),
)

_NAMES: Final = frozenset(field.name for field in FIELDS)


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
    if field.type in _BINARY_BYTES:
        return _binary_fault(_BINARY_BYTES[field.type], value)
    if field.type == "string":
        return _string_fault(field, value)
    return _integer_fault(field, value)


def _binary_fault(size: int, value: object) -> str:
    if not isinstance(value, bytes):
        return f"must be bytes, not {type(value).__name__}"
    return "" if len(value) == size else f"must have {size} bytes, not {len(value)}"


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
