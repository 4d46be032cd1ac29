"""The index of blobs by recipient and by expiry, filled in bulk (SPEC 6.2).

A put appends to two tables. Its index entry would dirty one more page in nearly every commit, so the entries of many
puts are written together. Until then they are in memory. After a crash they are rebuilt from the blobs that are not
indexed.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Final

from restante.core.mailbox import Keep
from restante.model.ids import InboxKey
from restante.runtime.sqlite.file.database import Database, load_queries

FLUSH_AT: Final = 2_048
"""Unindexed blobs at which the index is written: what a start has to read again, and some milliseconds of a commit."""

UnindexedBlob = tuple[int, int, int]
"""Id, expiry and size in bytes of a blob."""

_SQL: Final = load_queries("mailbox/deferred_index")
_blob_id: Final = itemgetter(0)


class DeferredIndex:
    """`reader` sees only what is committed; `database` is the connection of the one writer."""

    def __init__(self, database: Database, reader: Database) -> None:
        self._database = database
        self._reader = reader
        self._unindexed: dict[InboxKey, list[UnindexedBlob]] | None = None
        self._leaving: dict[InboxKey, list[UnindexedBlob]] = {}  # indexed by the transaction that is in progress
        self._waiting = 0
        self._indexed_through = 0  # no blob above this id is in the file's index
        self._last_id = 0
        self._committed_through = 0  # unindexed blobs up to this id are on disk
        database.on_invalidate(self._invalidate)
        database.after_commit(self._mark_committed)

    @property
    def is_due(self) -> bool:
        return self._waiting >= FLUSH_AT

    def add(self, ids: Iterable[int], keeps: Sequence[Keep]) -> None:
        """Add blobs of the running transaction; their ids are higher than all before."""
        unindexed = self._known(self._database)
        for blob_id, keep in zip(ids, keeps, strict=True):
            entry = (blob_id, keep.expires_at_ms, len(keep.envelope))
            theirs = unindexed.get(keep.inbox_key)
            if theirs is None:
                unindexed[keep.inbox_key] = [entry]
            else:
                theirs.append(entry)
            self._last_id = blob_id
        self._waiting += len(keeps)

    def remove(self, inbox: InboxKey, ids: AbstractSet[int]) -> bool:
        """Remove blobs of a mailbox that are deleted before they were indexed, and return True.

        If one of them is indexed or unknown, change nothing and return False.
        """
        unindexed = self._known(self._database)
        theirs = unindexed.get(inbox, [])
        left = [entry for entry in theirs if entry[0] not in ids]
        if len(theirs) - len(left) != len(ids):
            return False
        if left:
            unindexed[inbox] = left
        else:
            unindexed.pop(inbox, None)
        self._waiting -= len(ids)
        return True

    def inboxes(self) -> Iterable[InboxKey]:
        """Return the mailboxes with unindexed blobs."""
        return self._known(self._database).keys()

    def waiting_in(self, inbox: InboxKey) -> Sequence[UnindexedBlob]:
        """Return the unindexed blobs of a mailbox, oldest first."""
        return self._known(self._database).get(inbox, ())

    def flush(self) -> None:
        """Write all entries in the running transaction."""
        unindexed = self._known(self._database)
        if not unindexed:
            return
        self._database.defer_many(
            _SQL["add"], [(inbox, *entry) for inbox in sorted(unindexed) for entry in unindexed[inbox]]
        )
        through = max(entries[-1][0] for entries in unindexed.values())
        self._database.defer(_SQL["set_indexed_through"], (through,))
        self._indexed_through = through
        for inbox, entries in self._leaving.items():
            unindexed[inbox] = entries + unindexed.get(inbox, [])
        self._leaving, self._unindexed, self._waiting = unindexed, {}, 0

    def page(self, inbox: InboxKey, *, after: int, limit: int, now_ms: int) -> list[tuple[int, int]]:
        """Return ids and sizes of the first blobs above `after` that are live and on disk.

        A commit may be running in its thread. If a page named its blobs too early, a reader would find none
        of them and continue behind them, and the subscription would never get them.
        """
        # Read the memory first: entries that a commit moves away in between are then found in the file.
        waiting = [*self._leaving.get(inbox, ()), *self._known(self._reader).get(inbox, ())]
        through = self._committed_through
        page: list[tuple[int, int]] = []
        if after < self._indexed_through:  # a live subscription is usually behind nothing but new blobs
            page = self._reader.run(_SQL["page_sizes"], recipient=inbox, after=after, limit=limit, now_ms=now_ms)
        if waiting and len(page) < limit:
            indexed_through = page[-1][0] if page else after
            first = bisect_right(waiting, indexed_through, key=_blob_id)
            page += [
                (blob_id, size_bytes)
                for blob_id, expires_at_ms, size_bytes in waiting[first : bisect_right(waiting, through, key=_blob_id)]
                if expires_at_ms > now_ms
            ][: limit - len(page)]
        return page

    def _known(self, through: Database) -> dict[InboxKey, list[UnindexedBlob]]:
        """Return the unindexed blobs; read them from the file if the cache was invalidated."""
        unindexed = self._unindexed
        if unindexed is None:
            unindexed = {}
            rows = through.query_without_writing(_SQL["unindexed"])  # no blob is deferred yet: `add` calls this first
            self._indexed_through = self._last_id = rows[0][0]
            for _, recipient, blob_id, expires_at_ms, size_bytes in rows:
                if blob_id is not None:
                    unindexed.setdefault(InboxKey(recipient), []).append((blob_id, expires_at_ms, size_bytes))
                    self._last_id = blob_id
            self._unindexed, self._waiting = unindexed, sum(map(len, unindexed.values()))
            self._committed_through = self._last_id
        return unindexed

    def _mark_committed(self) -> None:
        self._committed_through = self._last_id
        if self._leaving:
            self._leaving = {}

    def _invalidate(self) -> None:
        self._unindexed, self._leaving, self._waiting = None, {}, 0
