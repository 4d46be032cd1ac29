"""The final state of every message for 30 days (SPEC 3.13).

It recognises an id that is used again, answers `status`, and finds the message that a late READ is about.
"""

from typing import Final

from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import EndedEntry, OutboxEntry
from restante.model.states import Confirmation, State
from restante.policy.ack_batching import advance
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal

RETENTION_MS: Final = 30 * 86_400_000  # SPEC 3.13

_SQL: Final = load_queries("outbox/delivered_index")
_ADD: Final = _SQL["add"]


class DeliveredIndex:
    """Stores no payload and no destination: an id, how it ended, how far it was confirmed, its id at a platform."""

    def __init__(self, database: Database, journal: Journal) -> None:
        self._database = database
        self._journal = journal

    def add(self, entry: OutboxEntry, *, now_ms: int) -> None:
        row = (entry.message_id, entry.kind, entry.priority, entry.state, entry.confirmation, now_ms)
        self._database.defer(_ADD, row)

    def find(self, message_id: MessageId) -> EndedEntry | None:
        """Return how a message ended; None if it is in flight, a dead letter, or ended more than 30 days ago."""
        for kind, priority, state, confirmation, ended_at_ms in self._database.rows(_SQL["find"], message_id):
            return EndedEntry(
                message_id=message_id,
                kind=Kind(kind),
                priority=Priority(priority),
                state=State(state),
                confirmation=Confirmation(confirmation),
                ended_at_ms=ended_at_ms,
            )
        return None

    def mark_read(self, message_id: MessageId, *, now_ms: int) -> bool:
        """Record a READ ack for a delivered message; return whether it was the first."""
        ended = self.find(message_id)
        if ended is None or ended.state is not State.DELIVERED:
            return False
        if advance(ended.confirmation, Confirmation.READ) is ended.confirmation:
            return False
        self._database.rows(_SQL["raise_confirmation"], Confirmation.READ, message_id)
        self._journal.append(
            JournalKind.READ, at_ms=now_ms, message_id=message_id, message_kind=ended.kind, priority=ended.priority
        )
        return True

    def prune(self, *, now_ms: int) -> None:
        self._database.rows(_SQL["prune"], now_ms - RETENTION_MS)
        self._database.rows(_SQL["prune_platform_ids"], now_ms - RETENTION_MS)

    def add_platform_id(self, message_id: MessageId, platform_message_id: str, *, now_ms: int) -> None:
        """Keep the id under which a chat platform accepted a chunk; of a chunk in parts, that of the first part."""
        self._database.rows(_SQL["add_platform_id"], message_id, platform_message_id, now_ms)

    def find_platform_id(self, message_id: MessageId) -> str | None:
        for (platform_message_id,) in self._database.rows(_SQL["find_platform_id"], message_id):
            return str(platform_message_id)
        return None
