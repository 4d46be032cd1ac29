"""The journal table: events are appended in the transaction of the change they state (SPEC 1.4, 13.1).

The columns are declared in wire/journal_schema; INSERT and SELECT are made from that declaration.
"""

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, Unpack

from restante.core.outbox_events import AppendJournalEvent
from restante.model.ids import WRITER_ID_BYTES, MessageId, PayloadHash, SessionTag, WriterId, event_id, writer_id
from restante.model.journal import EventColumns, JournalEvent, JournalKind
from restante.model.kinds import Kind
from restante.model.outbox_entry import OutboxEntry
from restante.ports.encryptor import Encrypted
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file import journal_pruning
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.wire.journal_schema import COLUMNS, from_record

_SQL: Final = load_queries("file/journal")
_SET_META: Final = _SQL["set_meta"]
_SELECT: Final = f"SELECT number, {', '.join(COLUMNS)} FROM journal"  # noqa: S608 - names that we declare
_NAMED_BY_A_ROW: Final = frozenset({JournalKind.ACCEPTED, JournalKind.STORED})
"""Kinds whose numbers are also the key of an outbox entry or a blob."""
_EARLIER: Final = struct.Struct(f">{WRITER_ID_BYTES}sQ")
_ARRIVED: Final = JournalKind.ARRIVED
_RELEASED: Final = JournalKind.RELEASED


class ArrivedEvent(NamedTuple):
    """What is journaled of an arrival; `code` is the verdict."""

    message_id: MessageId
    session_tag: SessionTag
    sequence: int | None
    payload_hash: PayloadHash
    size_bytes: int
    message_kind: Kind | None
    code: str
    ttl_s: int | None


class ReleasedEvent(NamedTuple):
    """What is journaled of a message that was released to the application; `latency_ms` is how long it waited."""

    message_id: MessageId
    session_tag: SessionTag
    sequence: int
    message_kind: Kind
    code: str | None
    latency_ms: int


class BlobEvent(NamedTuple):
    """What a node journals of sealed bytes."""

    session_tag: SessionTag | None
    payload_hash: PayloadHash
    size_bytes: int | None
    ttl_s: int | None


@cache
def insert_statement(*columns: str) -> str:
    """Return the INSERT of an event with these columns besides number, time and kind; all others are NULL."""
    names = ("number", "at_ms", "kind", *columns)
    marks = ", ".join("?" * len(names))
    return f"INSERT INTO journal ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - names that we declare


_INSERT_STEP: Final = insert_statement("message_id", "message_kind", "priority", "attempt", "code", "latency_ms")
_INSERT_ARRIVED: Final = insert_statement(*ArrivedEvent._fields)
_INSERT_RELEASED: Final = insert_statement(*ReleasedEvent._fields)
_INSERT_BLOB: Final = insert_statement(*BlobEvent._fields)


class Journal:
    """One writer's events, numbered without gaps. The newest event is never deleted: the next number follows it."""

    def __init__(self, database: Database, entropy: Entropy) -> None:
        self._database = database
        self._last: int | None = None
        self._has_loose_end = False
        database.on_invalidate(self._invalidate)
        database.before_commit(self._mark_end)
        self.writer = WriterId(self.get_or_create_meta("writer", lambda: entropy.draw(WRITER_ID_BYTES)))
        self._earlier = [(WriterId(writer), last) for writer, last in _EARLIER.iter_unpack(self._earlier_writers())]

    @property
    def before_writer(self) -> int:
        """The number of the newest event under an earlier writer id; a writer's own numbers start at 1 after it."""
        return self._earlier[-1][1] if self._earlier else 0

    def append(self, kind: JournalKind, *, at_ms: int, **columns: Unpack[EventColumns]) -> int:
        """Append one event inside a transaction, together with the change it states, and return its number."""
        number = self._take_number(kind)
        values: tuple[Any, ...] = tuple(columns.values())
        self._database.defer(insert_statement(*columns), (number, at_ms, kind, *values))
        return number

    def append_step(
        self, entry: OutboxEntry, event: AppendJournalEvent, at_ms: int, encrypted: Encrypted | None = None
    ) -> int:
        """Append one event about an outbox entry and return its number."""
        if encrypted is not None and encrypted.is_again:
            self._append_reencrypted(entry, encrypted, at_ms)
            encrypted = None
        if event.node is not None or event.receipt is not None or encrypted is not None:
            return self._append_wide_step(entry, event, at_ms, encrypted)
        number = self._take_number(event.kind)
        self._database.defer(
            _INSERT_STEP,
            (
                number,
                at_ms,
                event.kind,
                entry.message_id,
                entry.kind,
                entry.priority,
                entry.attempts,
                event.code,
                event.latency_ms,
            ),
        )
        return number

    def _append_wide_step(
        self, entry: OutboxEntry, event: AppendJournalEvent, at_ms: int, encrypted: Encrypted | None
    ) -> int:
        """Append an event with a node's storage receipt, or with the hash, session and number of a first lease."""
        columns: EventColumns = {
            "message_id": entry.message_id,
            "message_kind": entry.kind,
            "priority": entry.priority,
            "attempt": entry.attempts,
            "code": event.code,
            "node": event.node,
        }
        if event.receipt is not None:
            columns |= {
                "evidence_inner_hash": event.receipt.inner_hash,
                "evidence_path": event.receipt.path,
                "evidence_root": event.receipt.root,
                "evidence_at_ms": event.receipt.at_ms,
                "evidence_signature": event.receipt.signature,
            }
        if encrypted is not None:
            columns |= {
                "session_tag": encrypted.session_tag,
                "sequence": encrypted.sequence,
                "payload_hash": encrypted.payload_hash,
                "size_bytes": len(encrypted.payload),
            }
        return self.append(event.kind, at_ms=at_ms, **columns)

    def _append_reencrypted(self, entry: OutboxEntry, encrypted: Encrypted, at_ms: int) -> None:
        """Nodes and the recipient journal the hash of these bytes; without this event Spark could not join theirs."""
        self.append(
            JournalKind.REENCRYPTED,
            at_ms=at_ms,
            message_id=entry.message_id,
            session_tag=encrypted.session_tag,
            sequence=encrypted.sequence,
            payload_hash=encrypted.payload_hash,
            size_bytes=len(encrypted.payload),
            message_kind=entry.kind,
            priority=entry.priority,
        )

    def append_arrived(self, event: ArrivedEvent, at_ms: int) -> None:
        self._database.defer(_INSERT_ARRIVED, (self._take_number(_ARRIVED), at_ms, _ARRIVED, *event))

    def append_released(self, event: ReleasedEvent, at_ms: int) -> None:
        self._database.defer(_INSERT_RELEASED, (self._take_number(_RELEASED), at_ms, _RELEASED, *event))

    def append_many(self, kind: JournalKind, blobs: Sequence[BlobEvent], *, at_ms: int) -> range:
        """Append one event for each of `blobs`, in order, and return their numbers."""
        self._has_loose_end |= kind not in _NAMED_BY_A_ROW
        first = self._take_numbers(len(blobs))
        self._database.defer_many(
            _INSERT_BLOB, [(number, at_ms, kind, *blob) for number, blob in enumerate(blobs, first)]
        )
        return range(first, first + len(blobs))

    def events(self, *, after: int, limit: int) -> list[JournalEvent]:
        """Return up to `limit` events with a number above `after`, oldest first."""
        rows = self._database.run(
            f"{_SELECT} WHERE number > :after ORDER BY number LIMIT :limit", after=after, limit=limit
        )
        return [self._event(number, values) for number, *values in rows]

    def columns(self, *, after: int, limit: int) -> list[tuple[Any, ...]]:
        """Return the same events as columns of plain values: the numbers, then `COLUMNS` in their order.

        For shipping: no object is made for each of a hundred thousand events, and nothing is checked. Readers of
        segments validate every row.
        """
        sql = f"{_SELECT} WHERE number > :after ORDER BY number LIMIT :limit"
        return list(zip(*self._database.run(sql, after=after, limit=limit), strict=True))

    def history(self, message_id: MessageId) -> list[JournalEvent]:
        """Return every event about one message, oldest first. Reads the whole journal: it has no index for this."""
        rows = self._database.run(f"{_SELECT} WHERE message_id = :message_id ORDER BY number", message_id=message_id)
        return [self._event(number, values) for number, *values in rows]

    def newest(self, kind: JournalKind, *, limit: int) -> list[JournalEvent]:
        """Return the newest events of one kind, the newest first. Reads the whole journal."""
        rows = self._database.run(
            f"{_SELECT} WHERE kind = :kind ORDER BY number DESC LIMIT :limit", kind=kind, limit=limit
        )
        return [self._event(number, values) for number, *values in rows]

    def last_number(self) -> int:
        """Return the number of the newest event; 0 when there is none."""
        [(last,)] = self._database.rows(_SQL["last_number"])
        return int(last)

    def shipped_through(self) -> int:
        """Return the number of the newest event that was shipped in a segment."""
        return self.shipping_state()[0]

    def shipping_state(self) -> tuple[int, bytes | None]:
        """Return the number of the newest shipped event, and the hash of the manifest it was shipped with."""
        rows = self._database.run(_SQL["get_meta"], key="shipped_through")
        raw = bytes(rows[0][0]) if rows else b""
        return int.from_bytes(raw[:8], "big"), raw[8:] or None

    def mark_shipped(self, through: int, *, manifest: bytes | None = None, at_ms: int | None = None) -> None:
        """Write down that events up to `through` were shipped, and the hash of their manifest.

        They are pruned some time after `at_ms`; never where it is not known.
        """
        with self._database.transaction():
            value = through.to_bytes(8, "big") + (manifest or b"")
            self._database.run(_SQL["set_meta"], key="shipped_through", value=value)
            if at_ms is not None:
                journal_pruning.note_shipped(self._database, through, at_ms=at_ms)

    def get_or_create_meta(self, key: str, create: Callable[[], bytes]) -> bytes:
        """Return a value that lives as long as the file; `create` makes it the first time.

        A read-only file is not written: the created value is returned only.
        """
        with self._database.transaction():
            rows = self._database.run(_SQL["get_meta"], key=key)
            if rows:
                return bytes(rows[0][0])
            value = create()
            if not self._database.read_only:
                self._database.run(_SQL["set_meta"], key=key, value=value)
            return value

    def get_meta(self, key: str) -> bytes | None:
        """Return a value of this file, or None."""
        rows = self._database.run(_SQL["get_meta"], key=key)
        return bytes(rows[0][0]) if rows else None

    def set_meta(self, key: str, value: bytes) -> None:
        self._database.run(_SQL["set_meta"], key=key, value=value)

    def take_new_writer(self, entropy: Entropy) -> None:
        """Write under another id from now on: the file was restored, and its next numbers were used before.

        Events up to now were shipped under the old id, or are lost with what the restore undid. The new writer's
        numbers start at 1: otherwise the fleet would miss all those before.
        """
        last = self.last_number()
        self.set_meta("earlier_writers", self._earlier_writers() + _EARLIER.pack(self.writer, last))
        self._earlier.append((self.writer, last))
        self.writer = WriterId(entropy.draw(WRITER_ID_BYTES))
        self.set_meta("writer", self.writer)
        self.mark_shipped(last)

    def _take_number(self, kind: JournalKind) -> int:
        if kind not in _NAMED_BY_A_ROW:
            self._has_loose_end = True
        if self._last is None:
            return self._take_numbers(1)
        self._last += 1
        return self._last

    def _take_numbers(self, count: int) -> int:
        """Reserve `count` numbers and return the first."""
        if self._last is None:
            [(self._last,)] = self._database.rows(_SQL["last_number"])
        first = self._last + 1
        self._last += count
        return first

    def _event(self, number: int, values: list[Any]) -> JournalEvent:
        record: dict[str, object] = dict(zip(COLUMNS, values, strict=True))
        writer, before = self._writer_of(number)
        record["event_id"] = event_id(writer, number - before)
        record["writer"] = writer_id(writer)
        return from_record(record)

    def _writer_of(self, number: int) -> tuple[WriterId, int]:
        """Return under which writer id an event was written, and the newest number before that writer's first."""
        before = 0
        for writer, last in self._earlier:
            if number <= last:
                return writer, before
            before = last
        return self.writer, before

    def _earlier_writers(self) -> bytes:
        return self.get_meta("earlier_writers") or b""

    def _mark_end(self) -> None:
        """Store the last number where no other row has it, so that events cut off at the end are noticed."""
        if self._has_loose_end:
            self._has_loose_end = False
            self._database.defer(_SET_META, ("last_number", str(self._last).encode()))

    def _invalidate(self) -> None:
        self._last = None
        self._has_loose_end = False
