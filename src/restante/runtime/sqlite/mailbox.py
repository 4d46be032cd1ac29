"""The relay's inbox store in SQLite: a Put that returned is on disk (SPEC 6.1, 6.2)."""

from typing import Any, Final

from restante.core.mailbox import Keep, Usage
from restante.crypto.tags import inbox_tag
from restante.model.ids import InboxKey, PayloadHash
from restante.model.journal import ASKED_BY_FLEET, JournalKind
from restante.ports.relay import Blob
from restante.runtime.sqlite.database import Database, load_queries
from restante.runtime.sqlite.journal import Journal

_SQL: Final = load_queries("mailbox")


class SqliteMailbox:
    """Satisfies `ports.relay.MailboxStore`. `tag_secret` keeps inboxes unrecognisable in the journal."""

    def __init__(self, database: Database, journal: Journal, *, tag_secret: bytes) -> None:
        self._database = database
        self._journal = journal
        self._tag_secret = tag_secret

    def put(self, keep: Keep, envelope: bytes, *, now_ms: int) -> int:
        with self._database.transaction():
            self._database.run(
                _SQL["put_blob"],
                recipient=keep.inbox_key,
                envelope=envelope,
                payload_hash=keep.payload_hash,
                stored_at_ms=now_ms,
                expires_at_ms=keep.expires_at_ms,
            )
            blob_id = self._database.last_insert()
            self._journal.append(
                JournalKind.STORED,
                at_ms=now_ms,
                payload_hash=keep.payload_hash,
                session_tag=inbox_tag(self._tag_secret, keep.inbox_key, at_ms=now_ms),
                size_bytes=len(envelope),
                ttl_s=max(0, keep.expires_at_ms - now_ms) // 1_000,
            )
        return blob_id

    def usage(self, inbox: InboxKey) -> Usage:
        [(blobs, size_bytes)] = self._database.run(_SQL["usage"], recipient=inbox)
        return Usage(blobs=blobs, total_bytes=size_bytes)

    def flush(self, inbox: InboxKey, *, after: int, limit: int, now_ms: int) -> list[Blob]:
        rows = self._database.run(_SQL["flush_page"], recipient=inbox, after=after, limit=limit, now_ms=now_ms)
        return [
            Blob(blob_id=blob_id, stored_at_ms=stored_at_ms, envelope=envelope)
            for blob_id, stored_at_ms, envelope in rows
        ]

    def delete(self, inbox: InboxKey, blob_id: int, *, now_ms: int) -> bool:
        with self._database.transaction():
            gone = self._database.run(_SQL["delete_blob"], id=blob_id, recipient=inbox)
            self._note(JournalKind.REMOVED, gone, now_ms)
        return bool(gone)

    def reap(self, *, now_ms: int) -> int:
        with self._database.transaction():
            gone = self._database.run(_SQL["reap"], now_ms=now_ms)
            self._note(JournalKind.REAPED, gone, now_ms)
        return len(gone)

    def reap_listed(self, sealed_hash: PayloadHash, *, now_ms: int) -> int:
        """Delete every copy of what was delivered elsewhere (SPEC 7.7, 13.6); how many there were."""
        with self._database.transaction():
            gone = self._database.run(_SQL["reap_listed"], payload_hash=sealed_hash)
            self._note(JournalKind.REAPED, gone, now_ms, code=ASKED_BY_FLEET)
        return len(gone)

    def _note(self, kind: JournalKind, rows: list[tuple[Any, ...]], now_ms: int, code: str | None = None) -> None:
        for (sealed_hash,) in rows:
            self._journal.append(kind, at_ms=now_ms, payload_hash=PayloadHash(sealed_hash), code=code)
