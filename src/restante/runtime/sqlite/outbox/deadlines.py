"""When time alone next changes an outbox entry: it expires, its lease ends, or it is due to be stored again.

The moment is read from the file once and then kept in memory as a lower bound: new deadlines make it earlier, and it
is read again only when it has come. So a drain that is woken by traffic asks the file nothing.
"""

from typing import Final

from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.outbox.row_codec import ENTRY_COLUMNS

_NEXT: Final = load_queries("outbox/store", entry=ENTRY_COLUMNS)["next_wake"]
_NEVER_MS: Final = 2**63 - 1


class Deadlines:
    """Every method is part of a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next_ms: int | None = None  # None while it is not known
        self.has_rest = False
        """Whether more entries are due to be stored again than could be leased: endings make room for them."""
        database.on_invalidate(self._invalidate)

    def note(self, at_ms: int) -> None:
        """An entry got a deadline."""
        if self._next_ms is not None and at_ms < self._next_ms:
            self._next_ms = at_ms

    def has_come(self, *, now_ms: int) -> bool:
        """Return whether time may have changed an entry since `next_ms` was last called."""
        return self.has_rest or self._next_ms is None or self._next_ms <= now_ms

    def next_ms(self, *, now_ms: int) -> int | None:
        """Return the next deadline, or an earlier moment; None if there is none."""
        if self._next_ms is None or self._next_ms <= now_ms:
            [(at_ms,)] = self._database.rows(_NEXT, now_ms)
            self._next_ms = _NEVER_MS if at_ms is None else int(at_ms)
        return None if self._next_ms == _NEVER_MS else self._next_ms

    def _invalidate(self) -> None:
        self._next_ms = None
