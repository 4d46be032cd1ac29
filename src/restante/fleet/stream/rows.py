"""Rows on their way into the stream's tables: the journal's columns, the file each came from, and its fault.

`annotated_event` and `annotated_verdict` are what a row means for its incoming session (stream/annotate), or null.
This module compares copies of a row; stream/duplicates decides which one stays.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals_schema import (
    MARK_BYTES,
    NO_SEQUENCE,
    SESSION_EVENTS,
    ZERO_MARK,
    Flags,
    Ints,
    halves,
)
from restante.model.journal import JournalKind
from restante.wire.journal_schema import FIELDS

_ARROW_TYPES: Final = {
    "binary": pa.binary(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
}
_JOURNAL: Final = [pa.field(field.name, _ARROW_TYPES[field.type]) for field in FIELDS]
COLUMNS: Final = tuple(field.name for field in FIELDS)
_SOURCE: Final = pa.field("source_file", pa.string())
_REASON: Final = pa.field("reason", pa.string())
ANNOTATIONS: Final = pa.schema([("annotated_event", pa.int8()), ("annotated_verdict", pa.int8())])

EVENTS: Final = pa.schema([*_JOURNAL, _SOURCE])
ANNOTATED: Final = pa.schema([*EVENTS, *ANNOTATIONS])
QUARANTINE: Final = pa.schema([*_JOURNAL, _SOURCE, _REASON])
REPEATS: Final = pa.schema([pa.field("event_id", pa.binary()), _SOURCE])
"""Further copies of an event, with the file each came from."""
INCOMING: Final = pa.schema([*_JOURNAL, _SOURCE, _REASON, *ANNOTATIONS])


def in_order(rows: Any, signed: frozenset[str]) -> Any:
    """Rows by event id; of equal ones those of signed files first, then by file name, as transforms/validate has it."""
    if not len(rows):
        return rows
    words = halves(rows["event_id"].cast(pa.binary())).byteswap()
    files = rows["source_file"].combine_chunks().dictionary_encode()
    names = files.dictionary.to_pylist()
    rank = np.empty(len(names), dtype=np.int64)
    rank[sorted(range(len(names)), key=lambda at: (names[at] not in signed, names[at]))] = np.arange(len(names))
    by_file = rank[files.indices.to_numpy()]
    return rows.take(pa.array(np.lexsort((by_file, words[:, 1], words[:, 0]))))


def same_content(one: Any, other: Any) -> Flags:
    """Place by place, whether two rows have the same values in all columns of the journal."""
    same = np.ones(len(one), dtype=np.bool_)
    for name in COLUMNS:
        left, right = one[name], other[name]
        equal = pc.fill_null(pc.equal(left, right), False)
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        same &= pc.or_(equal, both_null).to_numpy()
    return same


def kernel_events(events: Any) -> Any:
    """What these events tell of incoming sessions, as kernels.tables.SESSION_EVENTS."""
    told = events.filter(pc.is_valid(events["annotated_event"]))
    columns = {
        "event_id": told["event_id"],
        "session_tag": told["session_tag"],
        "event": told["annotated_event"],
        "at_ms": told["at_ms"],
        "sequence": pc.fill_null(told["sequence"], NO_SEQUENCE),
        "message_id": pc.fill_null(told["message_id"], ZERO_MARK),
        "payload": pc.fill_null(pc.binary_slice(told["payload_hash"], 0, MARK_BYTES), ZERO_MARK),
        "recorded": told["annotated_verdict"],
    }
    return pa.table([columns[name] for name in SESSION_EVENTS.names], schema=SESSION_EVENTS)


def session_tags(events: Any) -> Any:
    """The session that each of these events tells of; null where it tells of none."""
    return pc.if_else(pc.is_valid(events["annotated_event"]), events["session_tag"], pa.scalar(None, pa.binary()))


def is_unusable(events: Any) -> Any:
    """Arrivals that do not say what arrived where."""
    is_short = pc.or_(
        pc.or_(pc.is_null(events["session_tag"]), pc.is_null(events["message_id"])), pc.is_null(events["payload_hash"])
    )
    return pc.and_(pc.equal(events["kind"], JournalKind.ARRIVED.value), is_short)


def with_reason(rows: Any, reason: str) -> Any:
    """Rows as the quarantine has them."""
    reasons = pa.array([reason], pa.string()).take(pa.array(np.zeros(len(rows), dtype=np.int64)))
    return pa.table([*(rows[name] for name in (*COLUMNS, "source_file")), reasons], schema=QUARANTINE)


def taken(table: Any, places: Ints | Flags) -> Any:
    """The rows at these places, or where a flag is set; all of them mostly, and then nothing is copied."""
    if places.dtype != np.bool_:
        return table.take(pa.array(places))
    return table if places.all() else table.filter(pa.array(places))
