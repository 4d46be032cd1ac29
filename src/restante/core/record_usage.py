"""What each source put of a node's prekey records (SPEC 6.6, 7.6). In memory only, as for mail (core/source_usage).

Records have no numbers by which the source of each could be kept in few bytes. All records of a period end together,
so the bytes of a source are counted by the end of the period and dropped with it.
"""

from collections import Counter
from typing import NamedTuple

from restante.model.sources import UNKNOWN_SOURCE, Source


class _Change(NamedTuple):
    source: Source
    expires_at_ms: int
    more_bytes: int


class RecordUsage:
    """Changes count at once; `roll_back` undoes those since `commit`."""

    def __init__(self) -> None:
        self._bytes: dict[int, Counter[Source]] = {}
        self._changes: list[_Change] = []

    def total_bytes(self, source: Source) -> int:
        """Return what the source put of the records that are still kept."""
        return sum(each[source] for each in self._bytes.values())

    def stored(self, source: Source, *, expires_at_ms: int, more_bytes: int) -> None:
        """Count a record. One that replaces a longer one gives its source back no more than it has."""
        if source == UNKNOWN_SOURCE:
            return
        held = self._bytes.get(expires_at_ms, Counter[Source]())[source]
        change = _Change(source, expires_at_ms, max(more_bytes, -held))
        self._changes.append(change)
        self._count(change)

    def expired(self, now_ms: int) -> None:
        """Drop what was counted for periods that are over."""
        self._bytes = {until_ms: each for until_ms, each in self._bytes.items() if until_ms > now_ms}

    def commit(self) -> None:
        self._changes.clear()

    def roll_back(self) -> None:
        """Undo what has not been committed."""
        changes, self._changes = self._changes, []
        for each in changes:
            self._count(each._replace(more_bytes=-each.more_bytes))

    def _count(self, change: _Change) -> None:
        of_period = self._bytes.setdefault(change.expires_at_ms, Counter())
        of_period[change.source] += change.more_bytes
        if not of_period[change.source]:
            del of_period[change.source]
