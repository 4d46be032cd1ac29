"""The Delta tables that a batch of the stream writes: three published ones and the stream's state.

Delta knows no unsigned integers and no fixed-size binaries. State that is compared as such is stored as signed integers
and plain binaries with the same bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from restante.fleet.kernels.arrivals_schema import STATE
from restante.fleet.kernels.arrivals_words import ARRIVALS
from restante.fleet.lake.delta import PUBLISHED_RETENTION_H, STREAM_RETENTION_H
from restante.fleet.lake.layout import STREAM, TABLES
from restante.fleet.stream.rows import EVENTS, QUARANTINE, REPEATS

_MARK: Final = pa.binary(16)
DEDUP_RUN: Final = pa.schema(
    [
        ("key", pa.uint64()),
        ("session_tag", _MARK),
        ("writer", pa.int64()),
        ("at_ms", pa.int64()),
        ("message_id", _MARK),
        ("payload", _MARK),
    ]
)
"""Fingerprints that sessions have seen (SPEC 9.2), sorted by a hash of session and message."""
SESSIONS: Final = pa.schema([*STATE, pa.field("number", pa.uint64())])
"""The kernel's state without the fingerprints. `number` is that of the session's latest event."""
RANGES: Final = pa.schema([("first", _MARK), ("last", _MARK)])
"""Event ids that have come, as ranges."""
KEYS: Final = pa.schema([("key", pa.uint64())])
"""A hash of each session that was silent for longer than the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """`name` is also the beginning of its files' names; `schema` is that in memory, without the partition."""

    name: str
    folder: str
    schema: Any
    partition: tuple[str, ...] = ()
    retention_h: int = STREAM_RETENTION_H

    @property
    def stored(self) -> Any:
        """The schema of its files."""
        return pa.schema([pa.field(field.name, _stored_type(field.type)) for field in self.schema])

    @property
    def delta(self) -> Any:
        """The schema of the Delta table."""
        return pa.schema([*self.stored, *(pa.field(name, pa.date32()) for name in self.partition)])

    def to_stored(self, table: Any) -> Any:
        return _cast(table, self.stored)

    def from_stored(self, table: Any) -> Any:
        return _cast(table, self.schema)


def _published(name: str, kind: str, schema: Any, partition: tuple[str, ...] = ()) -> StateTable:
    return StateTable(
        name=kind, folder=f"{TABLES}/{name}", schema=schema, partition=partition, retention_h=PUBLISHED_RETENTION_H
    )


KINDS: Final[Mapping[str, StateTable]] = MappingProxyType(
    {
        "events": _published("events", "events", EVENTS, ("day",)),
        "arrivals": _published("arrivals", "arrivals", ARRIVALS, ("day",)),
        "quarantine": _published("quarantine", "quarantine", QUARANTINE),
        "repeats": StateTable(name="repeats", folder=f"{STREAM}/duplicates", schema=REPEATS),
        "seen": StateTable(name="seen", folder=f"{STREAM}/fingerprints", schema=DEDUP_RUN),
        "sessions": StateTable(name="sessions", folder=f"{STREAM}/sessions", schema=SESSIONS),
        "numbers": StateTable(name="numbers", folder=f"{STREAM}/known_events", schema=RANGES),
        "forgotten": StateTable(name="forgotten", folder=f"{STREAM}/silent_sessions", schema=KEYS),
        "bases": StateTable(name="bases", folder=f"{STREAM}/session_bases", schema=STATE),
    }
)


def _stored_type(kind: Any) -> Any:
    if pa.types.is_uint64(kind):
        return pa.int64()
    return pa.binary() if pa.types.is_fixed_size_binary(kind) else kind


def _cast(table: Any, schema: Any) -> Any:
    if table.schema.equals(schema):
        return table
    columns = [table[field.name].cast(field.type, safe=False) for field in schema]
    return pa.table(columns, schema=schema)
