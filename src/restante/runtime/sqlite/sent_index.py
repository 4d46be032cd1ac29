"""What was delivered lately: it tells a repeated id, and finds the message a late READ is about (SPEC 3.13)."""

from typing import Final

from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.records import OutboxEntry
from restante.model.states import Confirmation
from restante.policy.acks import advance
from restante.runtime.sqlite.database import Database, load_queries
from restante.runtime.sqlite.journal import Journal

KEPT_MS: Final = 30 * 86_400_000  # SPEC 3.13
_SQL: Final = load_queries("sent_index")


class SentIndex:
    """No payload, no destination: an id and how far it was confirmed."""

    def __init__(self, database: Database, journal: Journal) -> None:
        self._database = database
        self._journal = journal

    def remember(self, entry: OutboxEntry, *, now_ms: int) -> None:
        self._database.defer(
            _SQL["remember_sent"], (entry.message_id, entry.kind, entry.priority, entry.confirmation, now_ms)
        )

    def confirmation(self, message_id: MessageId) -> Confirmation | None:
        """How far a delivered message was confirmed; None for one that is not remembered."""
        rows = self._database.rows(_SQL["find_sent"], message_id)
        return Confirmation(rows[0][2]) if rows else None

    def mark_read(self, message_id: MessageId, *, now_ms: int) -> bool:
        """A READ came in; whether that is news."""
        for kind, priority, confirmation in self._database.rows(_SQL["find_sent"], message_id):
            if advance(Confirmation(confirmation), Confirmation.READ) == confirmation:
                return False
            self._database.rows(_SQL["raise_confirmation"], Confirmation.READ, message_id)
            self._journal.append(
                JournalKind.READ,
                at_ms=now_ms,
                message_id=message_id,
                message_kind=Kind(kind),
                priority=Priority(priority),
            )
            return True
        return False

    def forget_old(self, *, now_ms: int) -> None:
        self._database.rows(_SQL["forget_sent"], now_ms - KEPT_MS)
