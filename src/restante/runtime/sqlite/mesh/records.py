"""Prekey records and known peers in a node's file (SPEC 7.6, NETWORK 3)."""

import hashlib
from collections.abc import Iterable
from typing import Final

from restante.core.record_usage import RecordUsage
from restante.model.ids import NodeId, PayloadHash
from restante.model.journal import JournalKind
from restante.model.sources import UNKNOWN_SOURCE, Source
from restante.policy.quota import MailboxQuota, Refusal, check_records, check_share_of_records
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mesh.store import SqliteMeshStore

RECORD: Final = "record"
"""The code of a `stored` event for a prekey record."""

_SQL: Final = load_queries("mesh/store")


class SqliteMeshRecords:
    """Records count in the total of `store`, and take at most a tenth of it. Once half of that is used, one source may
    hold a tenth of it."""

    def __init__(self, database: Database, journal: Journal, store: SqliteMeshStore) -> None:
        self._database = database
        self._journal = journal
        self._store = store
        self._held_bytes: int | None = None
        self._usage = RecordUsage()
        database.on_invalidate(self._forget)
        database.after_commit(self._usage.commit)

    def put(
        self,
        key: bytes,
        record: bytes,
        *,
        expires_at_ms: int,
        quota: MailboxQuota,
        now_ms: int,
        source: Source = UNKNOWN_SOURCE,
    ) -> Refusal | None:
        """Replace the record under this key; the caller has decided that it is the newest (SPEC 7.6).

        A record that this node asked a neighbour for counts for no source.
        """
        with self._database.transaction():
            [(replaced_bytes, replaced_until_ms)] = self._database.rows(_SQL["record_size"], key) or [(0, 0)]
            more_bytes = len(record) - replaced_bytes
            # One of another period counts whole: what it replaces is counted until that period ends.
            of_source = more_bytes if replaced_until_ms == expires_at_ms else len(record)
            held_bytes = self._total_bytes()
            refused = check_records(quota, held_bytes=held_bytes, more_bytes=more_bytes)
            refused = refused or self._check_share(source, of_source, quota)
            refused = refused or self._store.check_total(more_bytes, quota=quota)
            if refused is None:
                self._held_bytes = held_bytes + more_bytes
                self._usage.stored(source, expires_at_ms=expires_at_ms, more_bytes=of_source)
                hashed = hashlib.sha256(record).digest()
                self._database.rows(_SQL["put_record"], key, expires_at_ms, hashed, record)
                self._journal.append(
                    JournalKind.STORED,
                    at_ms=now_ms,
                    payload_hash=PayloadHash(hashed),
                    size_bytes=len(record),
                    code=RECORD,
                )
            return refused

    def newest(self, key: bytes) -> bytes | None:
        """Return the record under a key, as the running transaction has it."""
        rows = self._database.rows(_SQL["record"], key)
        return bytes(rows[0][0]) if rows else None

    def get(self, key: bytes) -> bytes | None:
        """Return the committed record under a key."""
        rows = self._store.reader.rows(_SQL["record"], key)
        return bytes(rows[0][0]) if rows else None

    def collect_garbage(self, *, now_ms: int, quota: MailboxQuota) -> int:
        """Delete the records whose period ended more than a day ago."""
        with self._database.transaction():
            gone = self._database.run(_SQL["expired_records"], now_ms=now_ms)
            self._held_bytes = None
            self._usage.expired(now_ms)
            self._store.check_total(-sum(size_bytes for (size_bytes,) in gone), quota=quota)
        return len(gone)

    def _total_bytes(self) -> int:
        """Return what all records take, as the running transaction has it."""
        if self._held_bytes is None:
            self._held_bytes = int(self._database.rows(_SQL["record_bytes"])[0][0])
        return self._held_bytes

    def _check_share(self, source: Source, more_bytes: int, quota: MailboxQuota) -> Refusal | None:
        if source == UNKNOWN_SOURCE or more_bytes <= 0:
            return None
        return check_share_of_records(
            quota,
            held_bytes=self._total_bytes(),
            source_bytes=self._usage.total_bytes(source),
            more_bytes=more_bytes,
        )

    def _forget(self) -> None:
        self._held_bytes = None
        self._usage.roll_back()

    def remember_peers(self, descriptors: Iterable[tuple[NodeId, bytes]], *, now_ms: int, most: int) -> None:
        """Keep the descriptors of peers that answered, for the next start; at most the last `most`."""
        with self._database.transaction():
            for node_id, descriptor in descriptors:
                self._database.rows(_SQL["put_peer"], node_id, now_ms, descriptor)
            self._database.rows(_SQL["forget_peers"], most)

    def peers(self) -> list[bytes]:
        """Return the descriptors of peers that answered, the last one first."""
        return [bytes(each) for (each,) in self._store.reader.rows(_SQL["peers"])]
