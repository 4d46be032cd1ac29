"""The relay's inbox store in SQLite: what was put is on disk when its transaction is (SPEC 6.1, 6.2).

Reads go over a connection of their own, which sees only what is committed: a blob is never served before its
acknowledgement could be given, and reading does not wait for a commit under way.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from restante.core.mailbox import Keep, Usage
from restante.crypto.tags import DAY_MS, inbox_tag
from restante.model.ids import InboxKey, PayloadHash, SessionTag
from restante.model.journal import ASKED_BY_FLEET, JournalKind
from restante.policy.quota import Refused, StorageQuota, full
from restante.ports.relay import Blob
from restante.runtime.sqlite.database import Database, load_queries
from restante.runtime.sqlite.journal import Journal

REMEMBERED_INBOXES: Final = 10_000  # of each memory below: a bound, and far more than are busy at once

_SQL: Final = load_queries("mailbox")
_PUT: Final = _SQL["put_blob"]


class SqliteMailbox:
    """Satisfies `ports.relay.MailboxStore`. `tag_secret` keeps inboxes unrecognisable in the journal."""

    def __init__(self, database: Database, journal: Journal, *, tag_secret: bytes) -> None:
        self._database = database
        self._journal = journal
        self._reader = Database(database.path, schema="node", read_only=True)
        self._tag_secret = tag_secret
        self._tags: dict[InboxKey, SessionTag] = {}
        self._tags_of_day = 0
        self._nothing_expires_before: dict[InboxKey, int] = {}

    def close(self) -> None:
        """The reading connection; the writing one belongs to whoever opened it."""
        self._reader.close()

    def put_all(self, keeps: Sequence[Keep], *, quota: StorageQuota, now_ms: int) -> list[int | Refused]:
        held: dict[InboxKey, list[int]] = {}
        grown: set[InboxKey] = set()
        answers: list[int | Refused] = []
        with self._database.transaction():
            for keep in keeps:
                inbox, _, _, envelope = keep
                usage = held.get(inbox)
                if usage is None:
                    usage = held[inbox] = self._held(inbox)
                refused = full(quota, usage[0], usage[1], len(envelope))
                if refused is not None and self._sweep(inbox, now_ms):
                    usage = held[inbox] = self._held(inbox)
                    refused = full(quota, usage[0], usage[1], len(envelope))
                if refused is not None:
                    answers.append(refused)
                    continue
                answers.append(self._put(keep, now_ms))
                usage[0] += 1
                usage[1] += len(envelope)
                grown.add(inbox)
                if self._nothing_expires_before:
                    self._nothing_expires_before.pop(inbox, None)
            for inbox in grown:
                self._database.rows(_SQL["set_usage"], inbox, *held[inbox])
        return answers

    def usage(self, inbox: InboxKey) -> Usage:
        rows = self._reader.rows(_SQL["usage"], inbox)
        return Usage(blobs=rows[0][0], total_bytes=rows[0][1]) if rows else Usage(blobs=0, total_bytes=0)

    def flush(self, inbox: InboxKey, *, after: int, limit: int, max_bytes: int, now_ms: int) -> list[Blob]:
        sizes = self._reader.run(_SQL["page_sizes"], recipient=inbox, after=after, limit=limit, now_ms=now_ms)
        if not sizes:
            return []
        through, total_bytes = sizes[0]
        for blob_id, size_bytes in sizes[1:]:
            total_bytes += size_bytes
            if total_bytes > max_bytes:
                break
            through = blob_id
        rows = self._reader.run(_SQL["flush_page"], recipient=inbox, after=after, through=through, now_ms=now_ms)
        return list(map(Blob._make, rows))

    def delete_all(self, inbox: InboxKey, blob_ids: Sequence[int], *, now_ms: int) -> int:
        with self._database.transaction():
            gone = [row for blob_id in blob_ids for row in self._database.rows(_SQL["delete_blob"], blob_id, inbox)]
            self._note(JournalKind.REMOVED, gone, now_ms)
        return len(gone)

    def reap(self, *, now_ms: int, limit: int | None = None) -> int:
        with self._database.transaction():
            gone = self._database.run(_SQL["reap"], now_ms=now_ms, limit=-1 if limit is None else limit)
            self._note(JournalKind.REAPED, gone, now_ms)
        return len(gone)

    def reap_listed(self, sealed_hash: PayloadHash, *, now_ms: int) -> int:
        """Delete every copy of what was delivered elsewhere (SPEC 7.7, 13.6); how many there were."""
        with self._database.transaction():
            gone = self._database.run(_SQL["reap_listed"], payload_hash=sealed_hash)
            self._note(JournalKind.REAPED, gone, now_ms, code=ASKED_BY_FLEET)
        return len(gone)

    def _held(self, inbox: InboxKey) -> list[int]:
        """Blobs and bytes, as this transaction has them."""
        rows = self._database.peek(_SQL["usage"], inbox)  # what it holds is never deferred
        return list(rows[0]) if rows else [0, 0]

    def _put(self, keep: Keep, now_ms: int) -> int:
        inbox, sealed_hash, expires_at_ms, envelope = keep
        blob_id = self._journal.append(
            JournalKind.STORED,
            at_ms=now_ms,
            session_tag=self._tag(inbox, now_ms),
            payload_hash=sealed_hash,
            size_bytes=len(envelope),
            ttl_s=max(0, expires_at_ms - now_ms) // 1_000,
        )
        self._database.defer(_PUT, (blob_id, inbox, envelope, sealed_hash, now_ms, expires_at_ms))
        return blob_id

    def _sweep(self, inbox: InboxKey, now_ms: int) -> bool:
        """Whether a full inbox lost what had expired in it. Only then is it worth the walk through all of it."""
        if self._nothing_expires_before.get(inbox, 0) > now_ms:
            return False
        gone = self._database.run(_SQL["reap_inbox"], recipient=inbox, now_ms=now_ms)
        self._note(JournalKind.REAPED, gone, now_ms)
        if gone:
            return True  # not remembered: this transaction may still fail
        [(earliest_ms,)] = self._database.rows(_SQL["earliest_expiry"], inbox)
        _make_room(self._nothing_expires_before)
        self._nothing_expires_before[inbox] = earliest_ms or 0
        return False

    def _note(self, kind: JournalKind, gone: Iterable[tuple[Any, ...]], now_ms: int, code: str | None = None) -> None:
        """The facts of what is gone, and what its inboxes hold without it."""
        shrunk: defaultdict[InboxKey, list[int]] = defaultdict(lambda: [0, 0])
        for inbox, sealed_hash, size_bytes in gone:
            self._journal.append(kind, at_ms=now_ms, payload_hash=PayloadHash(sealed_hash), code=code)
            shrunk[inbox][0] += 1
            shrunk[inbox][1] += size_bytes
        for inbox, (blobs, size_bytes) in shrunk.items():
            held_blobs, held_bytes = self._held(inbox)
            if held_blobs > blobs:
                self._database.rows(_SQL["set_usage"], inbox, held_blobs - blobs, held_bytes - size_bytes)
            else:
                self._database.rows(_SQL["forget_usage"], inbox)

    def _tag(self, inbox: InboxKey, now_ms: int) -> SessionTag:
        """The inbox's tag of this day (SPEC 13.1), remembered: making one costs as much as writing a row."""
        if now_ms // DAY_MS != self._tags_of_day:
            self._tags_of_day = now_ms // DAY_MS
            self._tags.clear()
        tag = self._tags.get(inbox)
        if tag is None:
            _make_room(self._tags)
            tag = self._tags[inbox] = inbox_tag(self._tag_secret, inbox, at_ms=now_ms)
        return tag


def _make_room(remembered: dict[InboxKey, Any]) -> None:
    if len(remembered) >= REMEMBERED_INBOXES:
        remembered.clear()
