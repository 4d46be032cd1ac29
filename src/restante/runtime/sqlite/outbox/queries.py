"""What an operator asks about an outbox: lists, sums, and which message the first digits of an id mean.

This module only reads; runtime/sqlite/outbox/store changes entries.
"""

from dataclasses import dataclass
from typing import Any, Final

from restante.model.ids import MESSAGE_ID_BYTES, MessageId
from restante.model.outbox_entry import EndedEntry, StoredDeadLetter, WaitingEntry
from restante.model.states import DeadCategory, Route, State
from restante.policy.capacity import OutboxLimits, max_entries_of_lane
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.outbox.dead_letters import DeadLetterTable
from restante.runtime.sqlite.outbox.delivered_index import DeliveredIndex
from restante.runtime.sqlite.outbox.row_codec import EntryRow, entry_of, row_of

_SQL: Final = load_queries("outbox/queries", view=", ".join(EntryRow._fields))
_ID_DIGITS: Final = 2 * MESSAGE_ID_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryTotals:
    """How many messages, and how many bytes of payload."""

    messages: int = 0
    payload_bytes: int = 0


class OutboxQueries:
    """Questions about one outbox. Inside one transaction, all answers are of the same moment."""

    def __init__(self, database: Database, letters: DeadLetterTable, ended: DeliveredIndex) -> None:
        self._database = database
        self._letters = letters
        self._ended = ended

    def waiting(self, *, state: State | None, lane: str | None, limit: int) -> list[WaitingEntry]:
        """Return entries in flight in the order of acceptance."""
        rows = self._database.run(_SQL["waiting"], state=state, lane=lane, limit=limit)
        return [_waiting_of(row) for row in rows]

    def count_waiting(self, *, state: State | None, lane: str | None) -> int:
        [(count,)] = self._database.run(_SQL["count_waiting"], state=state, lane=lane)
        return int(count)

    def one_waiting(self, message_id: MessageId) -> WaitingEntry | None:
        """Return one entry in flight."""
        rows = self._database.run(_SQL["one"], message_id=message_id)
        return _waiting_of(rows[0]) if rows else None

    def ended(self, message_id: MessageId) -> EndedEntry | None:
        """Return how a message ended, if it did in the last 30 days and is no dead letter."""
        return self._ended.find(message_id)

    def held_by_state(self) -> dict[State, EntryTotals]:
        rows = self._database.run(_SQL["held_by_state"])
        return {State(state): EntryTotals(messages=count, payload_bytes=size) for state, count, size in rows}

    def dead_by_category(self) -> dict[DeadCategory, EntryTotals]:
        rows = self._database.run(_SQL["dead_by_category"])
        return {
            DeadCategory(category): EntryTotals(messages=count, payload_bytes=size) for category, count, size in rows
        }

    def letters(self, *, category: DeadCategory | None, limit: int) -> list[StoredDeadLetter]:
        """Those given up first, first; all of them for a limit below zero."""
        rows = self._database.run(_SQL["letters"], category=category, limit=limit)
        found = (self._letters.load(MessageId(row[0])) for row in rows)
        return [letter for letter in found if letter is not None]

    def count_delivered(self) -> int:
        """Return how many messages of the last 30 days were delivered."""
        [(count,)] = self._database.run(_SQL["count_delivered"])
        return int(count)

    def count_evicted(self, *, since_ms: int) -> int:
        """Return how many messages were evicted since then."""
        [(count,)] = self._database.run(_SQL["count_evicted"], since_ms=since_ms)
        return int(count)

    def fullest_lanes(self, limits: OutboxLimits, *, limit: int) -> list[tuple[str, int, int]]:
        """Return the lanes that are nearest to their limit, each with its entries and its limit (SPEC 3.6)."""
        upstream, share = (max_entries_of_lane(limits, route, "") for route in (Route.UPSTREAM, Route.RELAY))
        rows = self._database.run(_SQL["fullest_lanes"], upstream=upstream, share=share, limit=limit)
        return [(name, held, max_entries_of_lane(limits, Route(route), name)) for route, name, held in rows]

    def oldest_waiting_ms(self) -> int | None:
        """When the oldest message was made that has not left yet."""
        [(at_ms,)] = self._database.run(_SQL["oldest_waiting"])
        return None if at_ms is None else int(at_ms)

    def ids_starting(self, digits: str, *, limit: int) -> list[MessageId]:
        """Messages whose id begins with these hexadecimal digits.

        One that is still kept in some form is preferred: only if there is none, those that left nothing but facts.
        """
        low, high = (bytes.fromhex(digits.ljust(_ID_DIGITS, end)) for end in "0f")
        for query in ("ids_between", "journaled_ids_between"):
            rows = self._database.run(_SQL[query], low=low, high=high, limit=limit)
            if rows:
                return [MessageId(row[0]) for row in rows]
        return []


def _waiting_of(row: tuple[Any, ...]) -> WaitingEntry:
    *values, is_blocked = row
    entry_row = row_of(tuple(values))
    return WaitingEntry(entry=entry_of(entry_row), size_bytes=entry_row.size_bytes, is_blocked=is_blocked == 1)
