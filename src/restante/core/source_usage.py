"""What each source put into a node's mailboxes and what of it is still stored (SPEC 6.6). In memory only.

A node that restarts knows no sources: what it holds then counts against the total and the mailboxes alone.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from restante.core.mailbox import Keep
from restante.model.ids import InboxKey
from restante.model.sources import UNKNOWN_SOURCE, Source

CHUNK_IDS: Final = 4_096
MAX_COUNTED_MAILBOXES: Final = 1_000  # mailboxes whose shares are kept: a bound; others are counted again

_UNKNOWN: Final = 0


class Share(NamedTuple):
    """What one source has stored in one mailbox."""

    blobs: int
    size_bytes: int


class _Change(NamedTuple):
    """Consecutive blobs of one source that a running transaction stored (`sign` 1) or deleted (-1)."""

    sign: int
    first_id: int
    blobs: int
    source: int
    size_bytes: int


class SourceUsage:
    """Blob ids grow and are never given twice. Changes count at once; `roll_back` undoes those since `commit`."""

    def __init__(self) -> None:
        self._source_of: _SourceOfBlob = _SourceOfBlob()
        self._numbers: dict[Source, int] = {}
        self._names: dict[int, Source] = {}
        self._next_number = 1
        self._bytes: Counter[int] = Counter()
        self._shares: dict[InboxKey, dict[int, Share]] = {}
        self._changes: list[_Change] = []

    def stored(self, first_id: int, keeps: Sequence[Keep]) -> None:
        """Count blobs that got consecutive ids."""
        sources = {keep.source for keep in keeps}
        if len(sources) == 1 and not self._shares:  # the usual case
            number = self._number(sources.pop())
            if number != _UNKNOWN:
                size_bytes = sum([len(keep.envelope) for keep in keeps])
                self._apply(_Change(1, first_id, len(keeps), number, size_bytes))
            return
        for source, run in groupby(keeps, key=lambda keep: keep.source):
            own = list(run)
            number = self._number(source)
            if number != _UNKNOWN:
                size_bytes = sum([len(keep.envelope) for keep in own])
                self._apply(_Change(1, first_id, len(own), number, size_bytes))
            if self._shares:
                for keep in own:
                    self._add_to_share(keep.inbox_key, number, 1, len(keep.envelope))
            first_id += len(own)

    def deleted(self, blob_id: int, inbox: InboxKey, size_bytes: int) -> None:
        number = self._source_of.get(blob_id)
        if number != _UNKNOWN:
            self._apply(_Change(-1, blob_id, 1, number, size_bytes))
        self._add_to_share(inbox, number, -1, -size_bytes)

    def commit(self) -> None:
        """Keep the changes, and drop sources that have nothing stored."""
        for number in {change.source for change in self._changes}:
            if not self._bytes[number]:
                del self._bytes[number]
                del self._numbers[self._names.pop(number)]
        self._changes.clear()

    def roll_back(self) -> None:
        """Undo what has not been committed, last change first."""
        changes, self._changes = self._changes, []
        for change in reversed(changes):
            self._count(change._replace(sign=-change.sign))
        self._shares.clear()

    def total_bytes(self, source: Source) -> int:
        """Return what the source has stored in all mailboxes."""
        return self._bytes[self._numbers[source]] if source in self._numbers else 0

    def share(self, inbox: InboxKey, source: Source) -> Share | None:
        """Return what the source has stored in a mailbox; None if that mailbox has not been counted."""
        shares = self._shares.get(inbox)
        return None if shares is None else shares.get(self._numbers.get(source, _UNKNOWN), Share(0, 0))

    def count_mailbox(self, inbox: InboxKey, blobs: Iterable[tuple[int, int]]) -> None:
        """Count the shares of a mailbox from the ids and sizes of all its blobs, and keep them up to date."""
        if len(self._shares) >= MAX_COUNTED_MAILBOXES:
            self._shares.clear()
        self._shares[inbox] = {}
        for blob_id, size_bytes in blobs:
            self._add_to_share(inbox, self._source_of.get(blob_id), 1, size_bytes)

    def _add_to_share(self, inbox: InboxKey, number: int, blobs: int, size_bytes: int) -> None:
        shares = self._shares.get(inbox)
        if shares is not None and number != _UNKNOWN:
            held = shares.get(number, Share(0, 0))
            shares[number] = Share(held.blobs + blobs, held.size_bytes + size_bytes)

    def _apply(self, change: _Change) -> None:
        self._changes.append(change)
        self._count(change)

    def _count(self, change: _Change) -> None:
        self._source_of.set(change.first_id, change.blobs, change.source if change.sign > 0 else _UNKNOWN)
        self._bytes[change.source] += change.sign * change.size_bytes

    def _number(self, source: Source) -> int:
        if source == UNKNOWN_SOURCE:
            return _UNKNOWN
        number = self._numbers.get(source)
        if number is None:
            number = self._numbers[source] = self._next_number
            self._names[number] = source
            self._next_number += 1
        return number


class _Chunk:
    __slots__ = ("known", "numbers")

    def __init__(self) -> None:
        self.numbers = array("I", bytes(4 * CHUNK_IDS))
        self.known = 0


class _SourceOfBlob:
    """The number of the source of each blob, in 4 bytes: a node may hold millions of blobs."""

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}

    def get(self, blob_id: int) -> int:
        chunk = self._chunks.get(blob_id // CHUNK_IDS)
        return _UNKNOWN if chunk is None else chunk.numbers[blob_id % CHUNK_IDS]

    def set(self, first_id: int, blobs: int, number: int) -> None:
        """Set the number of consecutive blobs, which have all one source or none."""
        while blobs:
            key, start = divmod(first_id, CHUNK_IDS)
            count = min(blobs, CHUNK_IDS - start)
            chunk = self._chunks.get(key)
            if chunk is None:
                chunk = self._chunks[key] = _Chunk()
            chunk.numbers[start : start + count] = array("I", [number]) * count
            chunk.known += count if number != _UNKNOWN else -count
            if not chunk.known:
                del self._chunks[key]
            first_id += count
            blobs -= count
