"""What an operator asks about an outbox: lists, sums, and which message a few characters of its id mean.

Only reads; the life of a message is in runtime/sqlite/outbox/store.
"""

from dataclasses import dataclass
from typing import Any, Final

from restante.model.ids import MESSAGE_ID_BYTES, MessageId
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import DeliveredEntry, StoredDeadLetter, WaitingEntry
from restante.model.states import Confirmation, DeadCategory, State
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.outbox.dead_letters import DeadLetterTable
from restante.runtime.sqlite.outbox.row_codec import entry_of

_SQL: Final = load_queries("outbox_reading")
_ID_DIGITS: Final = 2 * MESSAGE_ID_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryTotals:
    """How many messages, and how many bytes of payload."""

    messages: int = 0
    payload_bytes: int = 0


class OutboxQueries:
    """Questions about one client's outbox; ask several inside one transaction to have them of one moment."""

    def __init__(self, database: Database, letters: DeadLetterTable) -> None:
        self._database = database
        self._letters = letters

    def waiting(self, *, state: State | None, lane: str | None, limit: int) -> list[WaitingEntry]:
        """Those accepted first, first."""
        rows = self._database.run(_SQL["waiting"], state=state, lane=lane, limit=limit)
        return [_waiting_of(row) for row in rows]

    def count_waiting(self, *, state: State | None, lane: str | None) -> int:
        [(count,)] = self._database.run(_SQL["count_waiting"], state=state, lane=lane)
        return int(count)

    def one_waiting(self, message_id: MessageId) -> WaitingEntry | None:
        with self._database.transaction():
            for (number,) in self._database.run(_SQL["find_number"], message_id=message_id):
                [row] = self._database.run(_SQL["one"], number=number)
                return _waiting_of(row)
        return None

    def delivered(self, message_id: MessageId) -> DeliveredEntry | None:
        for kind, priority, confirmation, ended_at_ms in self._database.run(_SQL["delivered"], message_id=message_id):
            return DeliveredEntry(
                message_id=message_id,
                kind=Kind(kind),
                priority=Priority(priority),
                confirmation=Confirmation(confirmation),
                ended_at_ms=ended_at_ms,
            )
        return None

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
        """Of those the sent-index still remembers."""
        [(count,)] = self._database.run(_SQL["count_delivered"])
        return int(count)

    def count_evicted(self, *, since_ms: int) -> int:
        """Return how many messages were evicted. They leave no row, so their journal events are counted."""
        [(count,)] = self._database.run(_SQL["count_evicted"], since_ms=since_ms)
        return int(count)

    def fullest_relay_lanes(self, *, limit: int) -> list[tuple[str, int]]:
        """Lanes and their pending entries: the nearest to losing their oldest (SPEC 3.6)."""
        return [(lane, pending) for lane, pending in self._database.run(_SQL["fullest_lanes"], limit=limit)]

    def oldest_waiting_ms(self) -> int | None:
        """When the oldest message was made that has not left yet."""
        [(at_ms,)] = self._database.run(_SQL["oldest_waiting"])
        return None if at_ms is None else int(at_ms)

    def ids_starting(self, digits: str, *, limit: int) -> list[MessageId]:
        """Messages whose id begins with these hexadecimal digits.

        One that is still kept in some form is preferred: only if there is none, those that left nothing but facts.
        """
        low, high = (bytes.fromhex(digits.ljust(_ID_DIGITS, end)) for end in "0f")
        for query in ("ids_between", "told_ids_between"):
            rows = self._database.run(_SQL[query], low=low, high=high, limit=limit)
            if rows:
                return [MessageId(row[0]) for row in rows]
        return []


def _waiting_of(row: tuple[Any, ...]) -> WaitingEntry:
    *columns, is_behind = row
    return WaitingEntry(entry=entry_of(tuple(columns)), size_bytes=row[3], is_behind=is_behind == 1)
