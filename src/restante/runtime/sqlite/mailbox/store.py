"""The mailboxes of a node in SQLite (SPEC 6.1, 6.2, 6.6).

Reads use a second connection, which sees only what is committed: a blob is never served before it can be acknowledged,
and reading does not wait for a commit in progress.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from restante.core.mailbox import Keep, Usage, is_intact
from restante.core.source_usage import Share, SourceUsage
from restante.crypto.journal_tags import DAY_MS, inbox_tag
from restante.model.ids import InboxKey, PayloadHash, SessionTag
from restante.model.journal import JournalKind
from restante.model.sources import UNKNOWN_SOURCE, Source
from restante.policy.quota import (
    DISK_FULL,
    MailboxQuota,
    Refusal,
    check_share_of_mailbox,
    check_share_of_total,
    check_space,
    is_mailbox_scarce,
    is_total_scarce,
)
from restante.ports.mailbox_store import BlobPage, DamagedBlob
from restante.ports.relay_connection import StoredBlob
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import BlobEvent, Journal
from restante.runtime.sqlite.mailbox.deferred_index import DeferredIndex

CACHED_MAILBOXES: Final = 10_000  # entries of each cache: a bound, far more than are busy at once

_SQL: Final = load_queries("mailbox/store")
_PUT: Final = _SQL["put_blob"]


class SqliteMailbox:
    """Satisfies `ports.mailbox_store.MailboxStore`. `tag_secret` keys the inbox tags in the journal."""

    def __init__(self, database: Database, journal: Journal, *, tag_secret: bytes) -> None:
        self._database = database
        self._journal = journal
        self._reader = Database(database.path, schema="node", read_only=True)
        self._tag_secret = tag_secret
        self._tags: dict[InboxKey, SessionTag] = {}
        self._tags_of_day = 0
        self._nothing_expires_before: dict[InboxKey, int] = {}
        self._held: dict[InboxKey, list[int]] = {}
        self._changed: set[InboxKey] = set()
        self._total_bytes: int | None = None
        self.sources = SourceUsage()
        """What each source stored, here and in the mesh: one share for both (SPEC 6.6)."""
        self._elsewhere_bytes: Callable[[], int] = lambda: 0
        self._damaged: set[int] = set()
        self._index = DeferredIndex(database, self._reader)
        database.on_invalidate(self._forget)
        database.before_commit(self._write_deferred)
        database.after_commit(self.sources.commit)

    def close(self) -> None:
        """Close the reading connection; the writing one belongs to the owner of the file."""
        self._reader.close()

    def share_total(self, elsewhere_bytes: Callable[[], int]) -> None:
        """Count what the node stores elsewhere (in the mesh) in its total, too."""
        self._elsewhere_bytes = elsewhere_bytes

    def total_bytes(self) -> int:
        """Return the bytes of all blobs, as this transaction has them."""
        if self._total_bytes is None:
            [(held_bytes,)] = self._database.rows(_SQL["total_bytes"])
            self._total_bytes = int(held_bytes)
        return self._total_bytes

    def put_all(
        self, keeps: Sequence[Keep], *, quota: MailboxQuota, now_ms: int, may_reap: bool = True
    ) -> list[int | Refusal]:
        if self._database.is_disk_full():
            return [DISK_FULL] * len(keeps)
        answers: list[int | Refusal] = []
        fitting: list[Keep] = []
        # Beyond these halves a put is checked closely; the functions of policy/quota would cost each put a microsecond.
        half_bytes, half_blobs = quota.max_bytes // 2, quota.max_blobs // 2
        with self._database.transaction():
            half_total = quota.total_bytes // 2 - self._elsewhere_bytes()
            total_bytes = self.total_bytes()
            for keep in keeps:
                inbox, size_bytes = keep.inbox_key, len(keep.envelope)
                held = self._held.get(inbox) or self._look_up(inbox)
                if total_bytes + size_bytes > half_total or held[1] + size_bytes > half_bytes or held[0] >= half_blobs:
                    answers += self._put(fitting, now_ms)
                    fitting = []
                    refused = self._check(keep, held, quota, now_ms, may_reap=may_reap)
                    total_bytes = self._total_bytes or 0
                    if refused is not None:
                        answers.append(refused)
                        continue
                held[0] += 1
                held[1] += size_bytes
                self._total_bytes = total_bytes = total_bytes + size_bytes
                fitting.append(keep)
            answers += self._put(fitting, now_ms)
        return answers

    def usage(self, inbox: InboxKey) -> Usage:
        [(blobs, total_bytes)] = self._reader.run(_SQL["usage_now"], recipient=inbox)
        return Usage(blobs=blobs, total_bytes=total_bytes)

    def flush(self, inbox: InboxKey, *, after: int, limit: int, max_bytes: int, now_ms: int) -> BlobPage:
        damaged: list[DamagedBlob] = []
        while page := self._index.page(inbox, after=after, limit=limit, now_ms=now_ms):
            first, *others = page
            ids = [first[0]]
            room_bytes = max_bytes - first[1]
            for blob_id, size_bytes in others:
                room_bytes -= size_bytes
                if room_bytes < 0:
                    break
                ids.append(blob_id)
            after = ids[-1]
            has_more = len(ids) < len(page) or len(page) == limit
            if self._damaged:
                ids = [blob_id for blob_id in ids if blob_id not in self._damaged]
            blobs: list[StoredBlob] = []
            for blob_id, stored_at_ms, envelope, payload_hash in self._reader.rows(_SQL["read_blobs"], json.dumps(ids)):
                if is_intact(envelope, inbox_key=inbox, payload_hash=payload_hash):
                    blobs.append(StoredBlob(blob_id, stored_at_ms, envelope))
                else:
                    self._damaged.add(blob_id)
                    damaged.append(DamagedBlob(blob_id, payload_hash))
            if blobs:
                return BlobPage(blobs, damaged, has_more)
            # else all of them are damaged, or deleted since
        return BlobPage([], damaged, has_more=False)

    def journal_damaged(self, damaged: Sequence[DamagedBlob], *, now_ms: int) -> None:
        with self._database.transaction():
            for blob in damaged:
                self._journal.append(JournalKind.DAMAGED, at_ms=now_ms, payload_hash=blob.payload_hash)

    def delete_all(self, inbox: InboxKey, blob_ids: Sequence[int], *, now_ms: int) -> int:
        with self._database.transaction():
            self._look_up(inbox)  # counts what is not indexed, before some of it goes
            was_indexed = not self._index.remove(inbox, frozenset(blob_ids))
            if was_indexed:
                self._flush_index()
            gone = self._database.rows(_SQL["delete_blobs"], json.dumps(blob_ids), inbox)
            self._note(JournalKind.SERVED, JournalKind.DELETED, gone=gone, now_ms=now_ms, was_indexed=was_indexed)
        return len(gone)

    def reap(self, *, now_ms: int, limit: int | None = None) -> int:
        with self._database.transaction():
            self._flush_index()
            gone = self._database.run(_SQL["reap"], now_ms=now_ms, limit=-1 if limit is None else limit)
            self._note(JournalKind.REAPED, gone=gone, now_ms=now_ms)
        return len(gone)

    def _look_up(self, inbox: InboxKey) -> list[int]:
        """Return blobs and bytes of a mailbox in this transaction. The caller changes the list in place."""
        held = self._held.get(inbox)
        if held is None:
            # No row of `usage` is deferred while its mailbox is not cached.
            rows = self._database.query_without_writing(_SQL["usage"], inbox)
            waiting = self._index.waiting_in(inbox)
            held = self._held[inbox] = list(rows[0]) if rows else [0, 0]
            held[0] += len(waiting)
            held[1] += sum(size_bytes for _, _, size_bytes in waiting)
        return held

    def _put(self, keeps: Sequence[Keep], now_ms: int) -> range:
        """Store blobs that fit, and return their ids."""
        if now_ms // DAY_MS != self._tags_of_day:
            self._tags_of_day = now_ms // DAY_MS
            self._tags.clear()
        tags = self._tags
        events = [
            BlobEvent(
                tags.get(inbox) or self._make_tag(inbox, now_ms),
                sealed_hash,
                len(envelope),
                max(0, expires_at_ms - now_ms) // 1_000,
            )
            for inbox, sealed_hash, expires_at_ms, envelope, _, _ in keeps
        ]
        ids = self._journal.append_many(JournalKind.STORED, events, at_ms=now_ms)
        self._database.defer_many(
            _PUT,
            [
                (blob_id, inbox, sealed_hash, expires_at_ms, envelope, now_ms)
                for blob_id, (inbox, sealed_hash, expires_at_ms, envelope, _, _) in zip(ids, keeps, strict=True)
            ],
        )
        self._index.add(ids, keeps)
        self.sources.stored(ids.start, keeps)
        if self._nothing_expires_before:
            for inbox in {keep.inbox_key for keep in keeps}:
                self._nothing_expires_before.pop(inbox, None)
        return ids

    def _flush_index(self) -> None:
        """Write the deferred index entries. Table `usage` counts exactly the indexed blobs."""
        inboxes = set(self._index.inboxes())
        for inbox in inboxes:
            self._look_up(inbox)
        self._changed |= inboxes
        self._index.flush()

    def _write_deferred(self) -> None:
        """Write deferred rows once a transaction, whatever the number of its operations."""
        if self._changed or self._index.is_due:
            self._flush_index()
            held = self._held
            self._database.defer_many(
                _SQL["set_usage"], [(inbox, *held[inbox]) for inbox in self._changed if held[inbox][0]]
            )
            self._database.defer_many(_SQL["forget_usage"], [(inbox,) for inbox in self._changed if not held[inbox][0]])
            self._changed.clear()
        _make_room(self._held)

    def _forget(self) -> None:
        """Drop the caches: the transaction was rolled back, or another connection wrote."""
        self._held.clear()
        self._changed.clear()
        self._nothing_expires_before.clear()
        self._total_bytes = None
        self.sources.roll_back()

    def _sweep(self, inbox: InboxKey, now_ms: int) -> bool:
        """Delete the expired blobs of a full mailbox; return whether there were any."""
        if self._nothing_expires_before.get(inbox, 0) > now_ms:
            return False
        self._flush_index()
        gone = self._database.run(_SQL["reap_inbox"], recipient=inbox, now_ms=now_ms)
        self._note(JournalKind.REAPED, gone=gone, now_ms=now_ms)
        if gone:
            return True  # not cached: this transaction may still fail
        [(earliest_ms,)] = self._database.rows(_SQL["earliest_expiry"], inbox)
        _make_room(self._nothing_expires_before)
        self._nothing_expires_before[inbox] = earliest_ms or 0
        return False

    def _note(
        self, *kinds: JournalKind, gone: Sequence[tuple[Any, ...]], now_ms: int, was_indexed: bool = True
    ) -> None:
        """Journal what was deleted, and update what its mailboxes, its sources and the node hold."""
        total_bytes = self.total_bytes() if gone else 0
        events = [BlobEvent(None, PayloadHash(sealed_hash), None, None) for _, _, sealed_hash, _ in gone]
        for kind in kinds:
            self._journal.append_many(kind, events, at_ms=now_ms)
        for blob_id, inbox, _, size_bytes in gone:
            held = self._look_up(inbox)
            held[0] -= 1
            held[1] -= size_bytes
            total_bytes -= size_bytes
            if was_indexed:
                self._changed.add(inbox)
            self.sources.deleted(blob_id, inbox, size_bytes)
            self._damaged.discard(blob_id)
        if gone:
            self._total_bytes = total_bytes

    def _check(
        self, keep: Keep, held: list[int], quota: MailboxQuota, now_ms: int, *, may_reap: bool
    ) -> Refusal | None:
        """Return why there is no space for the blob, in a mailbox or a node that is more than half full."""
        inbox, size_bytes = keep.inbox_key, len(keep.envelope)
        refused = self._check_space(quota, held, size_bytes)
        if refused is not None and may_reap and self._sweep(inbox, now_ms):
            refused = self._check_space(quota, held, size_bytes)
        if refused is not None or keep.source == UNKNOWN_SOURCE:
            return refused
        if is_total_scarce(quota, self.total_bytes() + self._elsewhere_bytes()):
            source_bytes = self.sources.total_bytes(keep.source)
            refused = check_share_of_total(quota, source_bytes=source_bytes, more_bytes=size_bytes)
        if refused is None and is_mailbox_scarce(quota, held[0], held[1]):
            share = self._share(inbox, keep.source)
            refused = check_share_of_mailbox(
                quota, source_blobs=share.blobs, source_bytes=share.size_bytes, more_bytes=size_bytes
            )
        return refused

    def _check_space(self, quota: MailboxQuota, held: list[int], size_bytes: int) -> Refusal | None:
        return check_space(
            quota,
            held_blobs=held[0],
            held_bytes=held[1],
            total_bytes=self.total_bytes() + self._elsewhere_bytes(),
            more_bytes=size_bytes,
        )

    def _share(self, inbox: InboxKey, source: Source) -> Share:
        share = self.sources.share(inbox, source)
        if share is None:
            self._flush_index()
            self.sources.count_mailbox(inbox, self._database.rows(_SQL["sizes"], inbox))
            share = self.sources.share(inbox, source)
        return share or Share(0, 0)

    def _make_tag(self, inbox: InboxKey, now_ms: int) -> SessionTag:
        """Return the inbox's tag of this day (SPEC 13.1) and cache it: computing one costs as much as writing a row."""
        _make_room(self._tags)
        tag = self._tags[inbox] = inbox_tag(self._tag_secret, inbox, at_ms=now_ms)
        return tag


def _make_room(remembered: dict[InboxKey, Any]) -> None:
    if len(remembered) >= CACHED_MAILBOXES:
        remembered.clear()
