"""Outbox entries that were touched lately: read once, kept while they are in flight, written together.

An entry that changed in this transaction is always in the cache, or known to be deleted: its row in the file may be
older until the deferred statements run.
"""

from dataclasses import dataclass
from typing import Final

from restante.model.ids import MessageId
from restante.model.outbox_entry import OutboxEntry
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.outbox.row_codec import ENTRY_COLUMNS, EntryRow, entry_of, row_of, state_columns

CACHED_ENTRIES: Final = 4_096
"""About 4 MB without bodies: more than are in flight at once."""

_SQL: Final = load_queries("outbox/store", entry=ENTRY_COLUMNS)
_STORE_STATE: Final = _SQL["store_state"]
_REMOVE_ENTRY: Final = _SQL["remove_entry"]


@dataclass(slots=True)
class CachedEntry:
    """An entry without its body, as it is after its last step, and where its lane and body are."""

    entry: OutboxEntry
    lane_id: int
    body_id: int
    size_bytes: int


class EntryCache:
    """Valid as long as no other connection writes to the file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cached: dict[MessageId, CachedEntry] = {}
        self._deleted: set[MessageId] = set()  # whose rows are not deleted yet
        database.on_invalidate(self._invalidate)
        database.before_commit(self._deleted.clear)

    def find(self, message_id: MessageId) -> CachedEntry | None:
        """Return an entry in flight, from the cache or from the file."""
        cached = self._cached.get(message_id)
        if cached is not None:
            return cached
        if message_id in self._deleted:
            return None
        for values in self._database.query_without_writing(_SQL["load_entry"], message_id):
            return self.add(row_of(values))
        # A new entry may still be deferred.
        for values in self._database.rows(_SQL["load_entry"], message_id):
            return self.add(row_of(values))
        return None

    def add(self, row: EntryRow) -> CachedEntry:
        """Cache the entry of a row that was just read, unless it is cached already."""
        cached = self._cached.get(row.message_id)
        if cached is not None:
            return cached
        if len(self._cached) >= CACHED_ENTRIES:
            self._database.write_deferred()
            self._cached.clear()
        self._cached[row.message_id] = cached = CachedEntry(entry_of(row), row.lane_id, row.body_id, row.size_bytes)
        return cached

    def store(self, cached: CachedEntry, after: OutboxEntry) -> None:
        self._database.defer(_STORE_STATE, (*state_columns(after), after.queue_number))
        cached.entry = after
        self._cached[after.message_id] = cached

    def remove(self, cached: CachedEntry) -> None:
        self._cached.pop(cached.entry.message_id, None)
        self._deleted.add(cached.entry.message_id)
        self._database.defer(_REMOVE_ENTRY, (cached.entry.queue_number,))

    def _invalidate(self) -> None:
        self._cached.clear()
        self._deleted.clear()
