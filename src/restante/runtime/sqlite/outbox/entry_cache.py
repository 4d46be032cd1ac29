"""Filed outbox entries: read once, remembered while they are on their way, written together.

An entry that was touched in this transaction is always remembered here, or known to have gone: what lies in the file
may be older. Knows rows, not what a change means.
"""

from dataclasses import dataclass
from typing import Any, Final

from restante.model.ids import MessageId
from restante.model.outbox_entry import OutboxEntry
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.outbox.id_index import IdBlocks
from restante.runtime.sqlite.outbox.row_codec import entry_of, state_columns

REMEMBERED: Final = 4_096
"""Entries kept in memory without their bodies, about 4 MB: more than are ever on their way at once."""

_SQL: Final = load_queries("outbox")
_STORE_STATE: Final = _SQL["store_state"]
_REMOVE_ENTRY: Final = _SQL["remove_entry"]


@dataclass(slots=True)
class FiledEntry:
    """An entry without its body, as it is after its last step, and where its body lies."""

    entry: OutboxEntry
    body_id: int
    size_bytes: int


class EntryCache:
    """What is remembered is right as long as nobody else writes to the file."""

    def __init__(self, database: Database, blocks: IdBlocks) -> None:
        self._database = database
        self._blocks = blocks
        self._filed: dict[MessageId, FiledEntry] = {}
        self._gone: set[MessageId] = set()  # until their rows are gone from the file, too
        database.on_invalidate(self._forget)
        database.before_commit(self._gone.clear)

    def known(self, message_id: MessageId) -> FiledEntry | None:
        """The entry, if it is remembered."""
        return self._filed.get(message_id)

    def look_up(self, message_id: MessageId) -> FiledEntry | None:
        """The entry, if it is in the file."""
        look = self._database.rows if message_id in self._gone else self._database.query_without_writing
        for row in look(_SQL["load_entry"], message_id, self._blocks.listed()):
            return self.place(row)
        return None

    def place(self, row: tuple[Any, ...]) -> FiledEntry:
        """Remember the entry of a row that was just read."""
        if len(self._filed) >= REMEMBERED:
            self._database.write_deferred()
            self._filed.clear()
        entry = entry_of(row)
        self._filed[entry.message_id] = filed = FiledEntry(entry, row[2], row[3])
        return filed

    def store(self, filed: FiledEntry, after: OutboxEntry, is_behind: bool, now_ms: int) -> None:
        self._database.defer(_STORE_STATE, (*state_columns(after, is_behind, now_ms), after.insertion))
        filed.entry = after
        self._filed[after.message_id] = filed

    def replace_payload(self, filed: FiledEntry, payload: bytes) -> None:
        self._database.rows(_SQL["store_payload"], len(payload), payload, filed.body_id)
        self._database.rows(_SQL["store_size"], len(payload), filed.entry.insertion)
        filed.size_bytes = len(payload)
        self._filed[filed.entry.message_id] = filed

    def remove(self, filed: FiledEntry) -> None:
        self._filed.pop(filed.entry.message_id, None)
        self._gone.add(filed.entry.message_id)
        self._database.defer(_REMOVE_ENTRY, (filed.entry.insertion,))

    def _forget(self) -> None:
        self._filed.clear()
        self._gone.clear()
