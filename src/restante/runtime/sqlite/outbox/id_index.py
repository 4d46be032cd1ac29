"""In which blocks of the index of ids the filed entries are, so that one can be looked up by its id.

An entry's block goes by its number in the queue: new ones share the pages of the last block, however many wait. Blocks
are kept in memory as long as nobody else writes to the file; one that has emptied meanwhile is asked in vain.
"""

import json
from typing import Final

from restante.runtime.sqlite.file.database import Database, load_queries

BLOCK_BITS: Final = 17
"""131,072 numbers a block, as in the index `outbox_id`: so few pages that they stay in SQLite's cache while arrivals
are filed, and one to three dozen blocks for a million entries that wait."""

_SQL: Final = load_queries("outbox")


class IdBlocks:
    """The blocks of one file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._blocks: frozenset[int] | None = None
        self._listed = ""
        database.on_invalidate(self._forget)

    def listed(self) -> str:
        """As a statement takes them."""
        if self._blocks is None:
            self._blocks = frozenset(block for (block,) in self._database.query_without_writing(_SQL["blocks"]))
            self._listed = json.dumps([*self._blocks])
        return self._listed

    def added(self, first: int, last: int) -> None:
        """Entries with these numbers, or some between them, were filed."""
        known = self._blocks or ()
        if any(block not in known for block in range(first >> BLOCK_BITS, (last >> BLOCK_BITS) + 1)):
            self._forget()

    def _forget(self) -> None:
        self._blocks = None
