"""Outbox entries that were touched lately: read once, kept while they are in flight, written together.

An entry that changed in this transaction is always in the cache, or known to be deleted: its row in the file may be
older until the deferred statements run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from restante.model.ids import MessageId
from restante.model.outbox_entry import OutboxEntry
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.outbox.new_entry import NewEntry
from restante.runtime.sqlite.outbox.row_codec import ENTRY_COLUMNS, EntryRow, entry_of, row_of, state_columns

CACHED_ENTRIES: Final = 4_096
"""About 4 MB without bodies: more than are in flight at once."""
CACHED_BODY_BYTES: Final = 4_194_304
"""Plaintexts of new entries, sealed at rest, that are kept until their first lease; others are read from the file."""

_SQL: Final = load_queries("outbox/store", entry=ENTRY_COLUMNS)
_STORE_STATE: Final = _SQL["store_state"]
_REMOVE_ENTRY: Final = _SQL["remove_entry"]


@dataclass(slots=True)
class CachedEntry:
    """An entry without its body, as it is after its last step, and where its lane and body are.

    `sealed_plaintext` is its whole body, where that is in memory: of a new entry that is still to be encrypted.
    """

    entry: OutboxEntry
    lane_id: int
    body_id: int
    size_bytes: int
    sealed_plaintext: bytes | None = None


class EntryCache:
    """Valid as long as no other connection writes to the file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cached: dict[MessageId, CachedEntry] = {}
        self._deleted: set[MessageId] = set()  # whose rows are not deleted yet
        self._body_bytes = 0
        database.on_invalidate(self.forget)
        database.before_commit(self._deleted.clear)

    def find(self, message_id: MessageId) -> CachedEntry | None:
        """Return an entry in flight, from the cache or from the file."""
        cached = self._cached.get(message_id)
        if cached is not None:
            return cached
        if message_id in self._deleted:
            return None
        # Without writing: no deferred row is about an entry that is not cached.
        for values in self._database.query_without_writing(_SQL["load_entry"], message_id):
            return self.add(row_of(values))
        return None

    def add_new(self, new: NewEntry, *, queue_number: int, lane_id: int, place: int) -> None:
        """Cache an entry that was just accepted, with its body if there is space and it is needed soon."""
        entry = OutboxEntry(
            message_id=new.message_id,
            route=new.route,
            lane=new.lane,
            kind=new.kind,
            payload=b"",
            sealed_plaintext=b"",
            priority=new.priority,
            created_at_ms=new.created_at_ms,
            queued_at_ms=new.queued_at_ms,
            ttl_s=new.ttl_s,
            expires_at_ms=new.expires_at_ms,
            next_attempt_at_ms=new.next_attempt_at_ms,
            queue_number=queue_number,
            place=place,
        )
        self._make_room()
        cached = self._cached[new.message_id] = CachedEntry(entry, lane_id, queue_number, new.size_bytes)
        if not new.payload and self._body_bytes + len(new.sealed_plaintext) <= CACHED_BODY_BYTES:
            cached.sealed_plaintext = new.sealed_plaintext
            self._body_bytes += len(new.sealed_plaintext)

    def with_bodies(self, message_ids: Iterable[MessageId]) -> list[CachedEntry] | None:
        """Return these entries if all of them and their bodies are in memory."""
        found: list[CachedEntry] = []
        for message_id in message_ids:
            cached = self._cached.get(message_id)
            if cached is None or cached.sealed_plaintext is None:
                return None
            found.append(cached)
        return found

    def drop_body(self, cached: CachedEntry) -> None:
        """The entry is encrypted now, or has ended: its body is not needed soon."""
        if cached.sealed_plaintext is not None:
            self._body_bytes -= len(cached.sealed_plaintext)
            cached.sealed_plaintext = None

    def add(self, row: EntryRow) -> CachedEntry:
        """Cache the entry of a row that was just read, unless it is cached already."""
        cached = self._cached.get(row.message_id)
        if cached is not None:
            return cached
        self._make_room()
        self._cached[row.message_id] = cached = CachedEntry(entry_of(row), row.lane_id, row.body_id, row.size_bytes)
        return cached

    def store(self, cached: CachedEntry, after: OutboxEntry) -> None:
        self._database.defer(_STORE_STATE, (*state_columns(after), after.queue_number))
        cached.entry = after
        self._cached[after.message_id] = cached

    def remove(self, cached: CachedEntry) -> None:
        self.drop_body(cached)
        self._cached.pop(cached.entry.message_id, None)
        self._deleted.add(cached.entry.message_id)
        self._database.defer(_REMOVE_ENTRY, (cached.entry.queue_number,))

    def forget(self) -> None:
        """Forget everything: the file may say otherwise."""
        self._cached.clear()
        self._deleted.clear()
        self._body_bytes = 0

    def _make_room(self) -> None:
        if len(self._cached) >= CACHED_ENTRIES:
            self._database.write_deferred()
            self._cached.clear()
            self._body_bytes = 0
