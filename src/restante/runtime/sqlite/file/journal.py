"""The journal table: facts appended in the transaction that makes them true (SPEC 1.4, 13.1)."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from restante.core.outbox_events import AppendJournalEvent
from restante.model.ids import (
    WRITER_ID_BYTES,
    MessageId,
    NodeId,
    PayloadHash,
    SessionTag,
    WriterId,
    event_id,
    writer_id,
)
from restante.model.journal import JournalEvent, JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.wire.journal_schema import FIELDS, from_record

_COLUMNS: Final = tuple(field.name for field in FIELDS if field.name not in {"event_id", "writer"})
_SQL: Final = load_queries("journal")
_APPEND_FACT: Final = _SQL["append_fact"]
_APPEND_STEP_FACT: Final = _SQL["append_step_fact"]
_SET_META: Final = _SQL["set_meta"]
_NAMED_BY_A_ROW: Final = frozenset({JournalKind.ACCEPTED, JournalKind.STORED})
"""Facts whose numbers are the ids of what they tell of."""
_APPEND_BLOB_FACT: Final = _SQL["append_blob_fact"]
_APPEND_ARRIVED_FACT: Final = _SQL["append_arrived_fact"]
_APPEND_RELEASED_FACT: Final = _SQL["append_released_fact"]
_ARRIVED: Final = JournalKind.ARRIVED
_RELEASED: Final = JournalKind.RELEASED

ArrivedEvent = tuple[MessageId, SessionTag, int | None, PayloadHash, int, Kind | None, str, int | None]
"""Message, session, place there, hash and size of the sealed bytes, kind, verdict and life in seconds. No class of its
own, as for the next: one of each is written for every message that arrives."""
ReleasedEvent = tuple[MessageId, SessionTag, int, Kind, str | None, int]
"""Message, session, place there, kind, reason and how long it waited in milliseconds."""

BlobEvent = tuple[SessionTag | None, PayloadHash, int | None, int | None]
"""Tag, hash, size in bytes and remaining life in seconds of sealed bytes. No class of its own: one is made for every
put."""


class Journal:
    """One writer's facts, numbered without holes. The newest fact is never deleted: the next number follows it."""

    def __init__(self, database: Database, entropy: Entropy) -> None:
        self._database = database
        self._last: int | None = None
        self._has_loose_end = False
        database.on_invalidate(self._forget)
        database.before_commit(self._mark_end)
        self.writer = WriterId(self.kept("writer", lambda: entropy.draw(WRITER_ID_BYTES)))

    def append(
        self,
        kind: JournalKind,
        *,
        at_ms: int,
        message_id: MessageId | None = None,
        session_tag: SessionTag | None = None,
        sequence: int | None = None,
        payload_hash: PayloadHash | None = None,
        size_bytes: int | None = None,
        message_kind: Kind | None = None,
        priority: Priority | None = None,
        attempt: int | None = None,
        code: str | None = None,
        node: NodeId | None = None,
        latency_ms: int | None = None,
        ttl_s: int | None = None,
    ) -> int:
        """The number of the fact. Part of a transaction, always: a fact is written with what it states."""
        number = self._take_number(kind)
        self._database.defer(
            _APPEND_FACT,
            (
                number,
                at_ms,
                kind,
                message_id,
                session_tag,
                sequence,
                payload_hash,
                size_bytes,
                message_kind,
                priority,
                attempt,
                code,
                node,
                latency_ms,
                ttl_s,
            ),
        )
        return number

    def append_step(self, entry: OutboxEntry, fact: AppendJournalEvent, at_ms: int) -> int:
        """The number of a fact about an entry of the outbox: the same with less ado, for every step writes one."""
        last = self._last
        if last is None:
            number = self._take_numbers(1)
        else:
            self._last = number = last + 1
        self._has_loose_end = True
        kind, code, latency_ms, node = fact
        self._database.defer(
            _APPEND_STEP_FACT,
            (number, at_ms, kind, entry.message_id, entry.kind, entry.priority, entry.attempts, code, node, latency_ms),
        )
        return number

    def append_arrived(self, fact: ArrivedEvent, at_ms: int) -> None:
        self._database.defer(_APPEND_ARRIVED_FACT, (self._take_number(_ARRIVED), at_ms, _ARRIVED, *fact))

    def append_released(self, fact: ReleasedEvent, at_ms: int) -> None:
        self._database.defer(_APPEND_RELEASED_FACT, (self._take_number(_RELEASED), at_ms, _RELEASED, *fact))

    def append_many(self, kind: JournalKind, blobs: Sequence[BlobEvent], *, at_ms: int) -> range:
        """The numbers of facts about sealed bytes, one for each, in order."""
        self._has_loose_end |= kind not in _NAMED_BY_A_ROW
        first = self._take_numbers(len(blobs))
        self._database.defer_many(
            _APPEND_BLOB_FACT, [(number, at_ms, kind, *blob) for number, blob in enumerate(blobs, first)]
        )
        return range(first, first + len(blobs))

    def _take_number(self, kind: JournalKind) -> int:
        if kind not in _NAMED_BY_A_ROW:
            self._has_loose_end = True
        if self._last is None:
            return self._take_numbers(1)
        self._last += 1
        return self._last

    def number_arrival(self) -> int:
        """The number of a message of the outbox, whose row is its first fact until it is filed."""
        last = self._last
        if last is None:
            return self._take_numbers(1)
        self._last = number = last + 1
        return number

    def _take_numbers(self, count: int) -> int:
        """The first of so many new numbers."""
        if self._last is None:
            [(self._last,)] = self._database.rows(_SQL["last_number"])
        first = self._last + 1
        self._last += count
        return first

    def facts(self, *, after: int, limit: int) -> list[JournalEvent]:
        """Up to `limit` facts with a number above `after`, oldest first."""
        rows = self._database.run(_SQL["facts_after"], after=after, limit=limit)
        return [self._row(number, values) for number, *values in rows]

    def columns(self, *, after: int, limit: int) -> list[tuple[Any, ...]]:
        """The same as columns of plain values: the numbers first, then those of the table in their order.

        For shipping, where a class for each of a hundred thousand rows would keep everybody else waiting. Nothing is
        checked here: readers of segments hold every row against the rules.
        """
        return list(zip(*self._database.run(_SQL["facts_after"], after=after, limit=limit), strict=True))

    def history(self, message_id: MessageId) -> list[JournalEvent]:
        """Every fact about one message, oldest first. Reads the whole journal: no index is kept for this."""
        rows = self._database.run(_SQL["facts_about"], message_id=message_id)
        return [self._row(number, values) for number, *values in rows]

    def last_number(self) -> int:
        """The number of the newest fact; 0 when there is none."""
        [(last,)] = self._database.rows(_SQL["last_number"])
        return int(last)

    def newest(self, kind: JournalKind, *, limit: int) -> list[JournalEvent]:
        """The newest facts of one kind, the newest first."""
        rows = self._database.run(_SQL["facts_of_kind"], kind=kind, limit=limit)
        return [self._row(number, values) for number, *values in rows]

    def shipped_through(self) -> int:
        """The number of the newest fact that has left in a segment."""
        rows = self._database.run(_SQL["get_meta"], key="shipped_through")
        return int.from_bytes(rows[0][0], "big") if rows else 0

    def mark_shipped(self, through: int) -> None:
        with self._database.transaction():
            self._database.run(_SQL["set_meta"], key="shipped_through", value=through.to_bytes(8, "big"))

    def kept(self, key: str, first: Callable[[], bytes]) -> bytes:
        """A value kept for the life of this file; `first` gives it the first time. Read-only, nothing is kept."""
        with self._database.transaction():
            rows = self._database.run(_SQL["get_meta"], key=key)
            if rows:
                return bytes(rows[0][0])
            value = first()
            if not self._database.read_only:
                self._database.run(_SQL["set_meta"], key=key, value=value)
            return value

    def _row(self, number: int, values: list[Any]) -> JournalEvent:
        record: dict[str, object] = dict(zip(_COLUMNS, values, strict=True))
        record["event_id"] = event_id(self.writer, number)
        record["writer"] = writer_id(self.writer)
        return from_record(record)

    def _mark_end(self) -> None:
        """How far the numbers go, where no other row says so: facts cut off at the end would not be missed."""
        if self._has_loose_end:
            self._has_loose_end = False
            self._database.defer(_SET_META, ("last_fact", str(self._last).encode()))

    def _forget(self) -> None:
        self._last = None
        self._has_loose_end = False
