"""What was delivered lately: it tells a repeated id, and finds the message a late READ is about (SPEC 3.13).

The last deliveries wait in the order they came until there are enough of them to be indexed together, or one of them
changes.
"""

from typing import Any, Final

from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Confirmation
from restante.policy.ack_batching import advance
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal

KEPT_MS: Final = 30 * 86_400_000  # SPEC 3.13
INDEX_AT: Final = 2_048
"""Deliveries that may wait to be indexed: enough to share pages, few enough to be read at once when others write."""

_SQL: Final = load_queries("sent_index")
_REMEMBER_SENT: Final = _SQL["remember_sent"]


class SentIndex:
    """No payload, no destination: an id and how far it was confirmed."""

    def __init__(self, database: Database, journal: Journal) -> None:
        self._database = database
        self._journal = journal
        self._waiting: int | None = None
        self._recent: set[MessageId] | None = None
        database.on_invalidate(self._forget)

    def remember(self, entry: OutboxEntry, *, now_ms: int) -> None:
        if self._waiting is None:
            [(self._waiting,)] = self._database.rows(_SQL["count_recent"])
        self._waiting += 1
        if self._recent is not None:
            self._recent.add(entry.message_id)
        self._database.defer(_REMEMBER_SENT, (entry.message_id, entry.kind, entry.priority, entry.confirmation, now_ms))
        if self._waiting >= INDEX_AT:
            self._index_recent()

    def knows(self, message_id: MessageId) -> bool:
        """Whether it was delivered, as far back as that is remembered."""
        return message_id in self._recent_ids() or bool(self._database.rows(_SQL["find_sent"], message_id))

    def confirmation(self, message_id: MessageId) -> Confirmation | None:
        """How far a delivered message was confirmed; None for one that is not remembered."""
        rows = self._database.rows(_SQL["find_delivered"], message_id)
        return Confirmation(rows[0][2]) if rows else None

    def mark_read(self, message_id: MessageId, *, now_ms: int) -> bool:
        """A READ came in; whether that is news."""
        for kind, priority, confirmation in self._find_indexed(message_id):
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
        self._index_recent()
        self._database.rows(_SQL["forget_sent"], now_ms - KEPT_MS)

    def _find_indexed(self, message_id: MessageId) -> list[tuple[Any, ...]]:
        if message_id in self._recent_ids():
            self._index_recent()
        return self._database.rows(_SQL["find_sent"], message_id)

    def _recent_ids(self) -> set[MessageId]:
        if self._recent is None:
            self._recent = {MessageId(message_id) for (message_id,) in self._database.rows(_SQL["recent_ids"])}
        return self._recent

    def _index_recent(self) -> None:
        self._database.rows(_SQL["index_recent"])
        self._database.rows(_SQL["forget_recent"])
        self._waiting = 0
        self._recent = set()

    def _forget(self) -> None:
        self._waiting = self._recent = None
