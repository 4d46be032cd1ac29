"""Mail of the mesh in a node's file: idempotent by key and hash, with tombstones and quotas (SPEC 6.6, 7.4, 7.7, 7.9).

Changes are made by the one writer inside a transaction and journaled with it. Reads use a second connection, which sees
only what is committed.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from restante.core.mailbox import Keep, is_intact
from restante.core.source_usage import SourceUsage
from restante.crypto.journal_tags import inbox_tag
from restante.model.ids import BlindedKey, InboxKey, NodeId, PayloadHash, SessionTag
from restante.model.journal import REPAIRED, JournalKind
from restante.policy.mesh.time_buckets import bucket_at, hashes_kept_until_ms
from restante.policy.quota import DISK_FULL, MailboxQuota, Refusal, check_space, is_total_scarce
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mesh.source_limits import Held, Room, SourceLimits
from restante.wire.frames.mesh_replication import Block, KeySummary

MAX_TOMBSTONES: Final = 10_000
"""Hashes of deleted blobs that are kept for one key (SPEC 7.4)."""
TOMBSTONE_BYTES: Final = 64
"""What a tombstone counts in the node's total."""
REMEMBERED_KEYS: Final = 10_000

_SQL: Final = load_queries("mesh/store")


class MeshKeep(NamedTuple):
    """Store this envelope; its inbox key follows from `blinded` and `bucket`, which the caller has checked."""

    blinded: BlindedKey
    bucket: int
    keep: Keep


class DamagedMeshBlob(NamedTuple):
    """A blob whose envelope no longer has the hash under which it was stored."""

    blob_id: int
    inbox_key: InboxKey
    payload_hash: PayloadHash


class ListedBlob(NamedTuple):
    number: int
    payload_hash: PayloadHash


class FoundBlocks(NamedTuple):
    """Intact blobs as they are sent, and the damaged ones that were found, which are never sent (SPEC 6.3)."""

    blocks: list[Block]
    damaged: list[DamagedMeshBlob]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshHoldings:
    keys: int
    blobs: int
    records: int
    open_buckets: int


@dataclass(slots=True)
class _Key:
    """What the running transaction knows of one key."""

    blinded: bytes
    bucket: int
    blobs: int = 0
    size_bytes: int = 0
    deleted: int = 0
    xor: int = 0

    def count(self, payload_hash: bytes, size_bytes: int, *, sign: int) -> None:
        self.blobs += sign
        self.size_bytes += sign * size_bytes
        self.xor ^= int.from_bytes(payload_hash, "big")


class SqliteMeshStore:
    """`sources` is shared with the mailboxes of the node, and `elsewhere_bytes` is what they hold of the total."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        *,
        tag_secret: bytes,
        sources: SourceUsage,
        elsewhere_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._database = database
        self._journal = journal
        self.reader = Database(database.path, schema="node", read_only=True)
        self._tag_secret = tag_secret
        self._sources = sources
        self._limits = SourceLimits(database, sources)
        self._elsewhere_bytes = elsewhere_bytes
        self._keys: dict[InboxKey, _Key] = {}
        self._changed: set[InboxKey] = set()
        self._places: dict[InboxKey, tuple[bytes, int]] = {}
        self._total_bytes: int | None = None
        self._write = database.query_without_writing  # nothing that is deferred concerns these tables
        database.on_invalidate(self._forget)
        database.before_commit(self._settle)

    def close(self) -> None:
        """Close the reading connection; the writing one belongs to the owner of the file."""
        self.reader.close()

    # Changes: inside the caller's transaction.

    def put_all(
        self, puts: Sequence[MeshKeep], *, quota: MailboxQuota, now_ms: int, repaired_from: NodeId | None = None
    ) -> list[Refusal | None]:
        """Store what is neither there nor deleted; return for each put None, or why there was no space.

        A replica that this node asked a neighbour for names it in `repaired_from`.
        """
        with self._database.transaction():
            return [self._put(each, quota, now_ms, repaired_from) for each in puts]

    def room(self, put: MeshKeep, *, quota: MailboxQuota) -> Room:
        """Return what the source of this put may still store, as it is after it."""
        state = self._look_up(put.keep.inbox_key, put.blinded, put.bucket)
        return self._limits.room(put.keep, self._holding(state), quota)

    def delete(
        self,
        blinded: BlindedKey,
        bucket: int,
        key: InboxKey,
        hashes: Iterable[PayloadHash],
        *,
        quota: MailboxQuota,
        now_ms: int,
    ) -> list[PayloadHash]:
        """Delete what the owner has read and keep the hashes, held or not; return those of deleted blobs.

        The caller has checked that this node holds the key or counts among its 16 closest (SPEC 7.4). Once more than
        half of the total is used, only hashes of deleted blobs are kept: anybody can name hashes that never were here.
        """
        wanted = list(dict.fromkeys(hashes))
        listed = json.dumps([each.hex() for each in wanted])
        with self._database.transaction():
            state = self._look_up(key, blinded, bucket)
            found = self._database.rows(_SQL["delete"], key, listed) if state.blobs else []
            self._note(found, JournalKind.SERVED, JournalKind.DELETED, now_ms=now_ms)
            gone = {PayloadHash(each) for _, _, each, _ in found}
            buried = (
                {each for (each,) in self._database.rows(_SQL["buried_of"], key, listed)} if state.deleted else set()
            )
            used_bytes = self.total_bytes() + self._elsewhere_bytes()
            new: list[PayloadHash] = []
            for each in wanted:
                has_space = each in gone or not is_total_scarce(quota, used_bytes + TOMBSTONE_BYTES * len(new))
                if has_space and each not in buried and state.deleted < MAX_TOMBSTONES:
                    new.append(each)
                    state.deleted += 1
                    state.xor ^= int.from_bytes(each, "big")
            if new:
                self._database.rows(_SQL["bury"], key, json.dumps([each.hex() for each in new]))
                self._total_bytes = self.total_bytes() + TOMBSTONE_BYTES * len(new)
            self._changed.add(key)
        return [each for each in wanted if each in gone]

    def collect_garbage(self, *, now_ms: int, limit: int) -> int:
        """Delete up to `limit` blobs that expired or whose bucket ended 30 days ago, then tombstones that are no longer
        needed (SPEC 7.7). Return how many blobs there were."""
        oldest = bucket_at(now_ms) - 24 * 30 - 1
        with self._database.transaction():
            gone = self._database.run(_SQL["expired"], now_ms=now_ms, limit=limit)
            gone += self._database.run(_SQL["old_blobs"], bucket=oldest, limit=limit)
            self._note(gone, JournalKind.REAPED, now_ms=now_ms)
            self._database.write_deferred()
            for (key,) in self._database.run(_SQL["old_keys"], bucket=oldest, limit=limit):
                state = self._look_up(InboxKey(key), None, 0)
                if now_ms >= hashes_kept_until_ms(state.bucket):
                    self._drop(InboxKey(key), state)
        return len(gone)

    def remove_damaged(self, damaged: Sequence[DamagedMeshBlob], *, now_ms: int) -> int:
        """Journal damaged blobs and remove them, so that a round with the neighbours brings them again (SPEC 6.3)."""
        removed = 0
        with self._database.transaction():
            for each in damaged:
                found = self._database.rows(_SQL["delete_id"], each.blob_id)
                removed += len(found)
                self._note(found, JournalKind.DAMAGED, now_ms=now_ms)
        return removed

    def total_bytes(self) -> int:
        """Return what blobs, records and tombstones take of the node's total, as this transaction has it."""
        if self._total_bytes is None:
            [(size_bytes, tombstones)] = self._database.rows(_SQL["totals"])
            self._total_bytes = int(size_bytes) + TOMBSTONE_BYTES * int(tombstones)
        return self._total_bytes

    def check_total(self, more_bytes: int, *, quota: MailboxQuota) -> Refusal | None:
        """Return why the node has no space for so many bytes of something else, or None; then they are counted."""
        if more_bytes > 0 and self._database.is_disk_full():
            return DISK_FULL
        total = self.total_bytes() + self._elsewhere_bytes()
        refused = check_space(quota, held_blobs=0, held_bytes=0, total_bytes=total, more_bytes=more_bytes)
        if refused is None:
            self._total_bytes = self.total_bytes() + more_bytes
        return refused

    # Reads: only what is committed.

    def listed(self, key: InboxKey, *, after: int, now_ms: int) -> list[ListedBlob]:
        """Return the live blobs of a key whose numbers are above `after`, in the order of the numbers."""
        rows = self.reader.rows(_SQL["listed"], key, after, now_ms)
        return [ListedBlob(number, PayloadHash(hashed)) for number, hashed in rows]

    def read(self, key: InboxKey, hashes: Iterable[PayloadHash], *, now_ms: int) -> FoundBlocks:
        found = FoundBlocks([], [])
        place = self._place(key)
        if place is None:
            return found
        blinded, bucket = place
        for each in hashes:
            for number, envelope in self.reader.rows(_SQL["read"], key, each, now_ms):
                if is_intact(envelope, inbox_key=key, payload_hash=each):
                    found.blocks.append(Block(blinded=BlindedKey(blinded), bucket=bucket, envelope=envelope))
                else:
                    found.damaged.append(DamagedMeshBlob(number, key, each))
        return found

    def holds(self, key: InboxKey) -> bool:
        return bool(self.reader.rows(_SQL["key_place"], key))

    def summaries(self, low: bytes, high: bytes, *, limit: int) -> list[KeySummary]:
        """Return what neighbours compare, for the first keys of a range."""
        rows = self.reader.run(_SQL["summaries"], low=low, high=high, limit=limit)
        return [KeySummary(inbox_key=InboxKey(key), count=count, xor=xor) for key, count, xor in rows]

    def live_hashes(self, key: InboxKey, *, now_ms: int) -> list[PayloadHash]:
        """Return the hashes of live blobs, or of the record, under a key, in the order of storing."""
        return [PayloadHash(each) for each, _ in self.reader.run(_SQL["live"], key=key, now_ms=now_ms)]

    def known_hashes(self, key: InboxKey) -> frozenset[PayloadHash]:
        """Return all hashes of a key, live or deleted."""
        buried = self.reader.rows(_SQL["buried"], key)
        return frozenset([*self.live_hashes(key, now_ms=0), *(PayloadHash(each) for (each,) in buried)])

    def scrub(self, after: int, *, limit: int) -> tuple[list[DamagedMeshBlob], int | None]:
        """Check the next blobs against their hashes; return the damaged ones and where to go on, None at the end."""
        rows = self.reader.rows(_SQL["scrub"], after, limit)
        damaged = [
            DamagedMeshBlob(number, InboxKey(key), PayloadHash(hashed))
            for number, key, hashed, envelope in rows
            if not is_intact(envelope, inbox_key=InboxKey(key), payload_hash=PayloadHash(hashed))
        ]
        return damaged, rows[-1][0] if len(rows) == limit else None

    def holdings(self) -> MeshHoldings:
        [(keys, blobs, records, open_buckets)] = self.reader.rows(_SQL["holdings"])
        return MeshHoldings(keys=keys, blobs=blobs, records=records, open_buckets=open_buckets)

    def _place(self, key: InboxKey) -> tuple[bytes, int] | None:
        """Return the blinded key and the bucket of a key. They never change: the key is their hash."""
        found = self._places.get(key)
        if found is None:
            rows = self.reader.rows(_SQL["key_place"], key)
            if not rows:
                return None
            if len(self._places) >= REMEMBERED_KEYS:
                self._places.clear()
            found = self._places[key] = rows[0][0], rows[0][1]
        return found

    def _put(self, put: MeshKeep, quota: MailboxQuota, now_ms: int, repaired_from: NodeId | None) -> Refusal | None:
        keep = put.keep
        key, payload_hash, size_bytes = keep.inbox_key, keep.payload_hash, len(keep.envelope)
        state = self._look_up(key, put.blinded, put.bucket)
        if self._is_known(keep, state):
            return None
        if self._database.is_disk_full():
            return DISK_FULL
        refused = self._limits.check(keep, self._holding(state), quota)
        if refused is not None:
            return refused
        columns: dict[str, Any] = {} if repaired_from is None else {"code": REPAIRED, "node": repaired_from}
        number = self._journal.append(
            JournalKind.STORED,
            at_ms=now_ms,
            session_tag=self._tag(key, now_ms),
            payload_hash=payload_hash,
            size_bytes=size_bytes,
            ttl_s=max(0, keep.expires_at_ms - now_ms) // 1_000,
            **columns,
        )
        self._write(_SQL["insert"], number, key, payload_hash, keep.expires_at_ms, keep.envelope)
        state.count(payload_hash, size_bytes, sign=1)
        self._changed.add(key)
        self._total_bytes = self.total_bytes() + size_bytes
        self._sources.stored(number, [keep])
        return None

    def _is_known(self, keep: Keep, state: _Key) -> bool:
        """Return whether the blob is here or was deleted. The later of two expiries counts."""
        found = self._write(_SQL["find"], keep.inbox_key, keep.payload_hash) if state.blobs else []
        if not found:
            return state.deleted > 0 and bool(self._write(_SQL["is_deleted"], keep.inbox_key, keep.payload_hash))
        [(number, expires_at_ms)] = found
        if keep.expires_at_ms > expires_at_ms:
            self._write(_SQL["prolong"], keep.expires_at_ms, keep.envelope, number)
        return True

    def _holding(self, state: _Key) -> Held:
        return Held(state.blobs, state.size_bytes, self.total_bytes() + self._elsewhere_bytes())

    def _note(self, gone: Sequence[tuple[Any, ...]], *kinds: JournalKind, now_ms: int) -> None:
        """Journal blobs that were deleted, and count what their keys, sources and the node hold."""
        for number, key, payload_hash, size_bytes in gone:
            for kind in kinds:
                self._journal.append(kind, at_ms=now_ms, payload_hash=PayloadHash(payload_hash))
            self._look_up(InboxKey(key), None, 0).count(payload_hash, size_bytes, sign=-1)
            self._changed.add(InboxKey(key))
            self._total_bytes = self.total_bytes() - size_bytes
            self._sources.deleted(number, InboxKey(key), size_bytes)

    def _look_up(self, key: InboxKey, blinded: bytes | None, bucket: int) -> _Key:
        """Return the state of a key in this transaction; the caller changes it in place."""
        state = self._keys.get(key)
        if state is None:
            rows = self._database.rows(_SQL["key"], key)
            place = self._database.rows(_SQL["key_place"], key)
            if rows:
                [(kept_blinded, kept_bucket)], [(blobs, size_bytes, deleted, xor)] = place, rows
                state = _Key(kept_blinded, kept_bucket, blobs, size_bytes, deleted, int.from_bytes(xor, "big"))
            else:
                state = _Key(blinded or bytes(32), bucket)
            self._keys[key] = state
        return state

    def _drop(self, key: InboxKey, state: _Key) -> None:
        self._database.rows(_SQL["unbury"], key)
        self._database.rows(_SQL["drop_key"], key)
        self._total_bytes = self.total_bytes() - TOMBSTONE_BYTES * state.deleted
        self._keys.pop(key, None)
        self._changed.discard(key)

    def _settle(self) -> None:
        """Write the changed keys once a transaction."""
        for key in self._changed:
            state = self._keys[key]
            if state.blobs or state.deleted:
                row = (state.blobs, state.size_bytes, state.deleted, state.xor.to_bytes(32, "big"))
                self._database.defer(_SQL["set_key"], (key, state.blinded, state.bucket, *row))
            else:
                self._database.defer(_SQL["drop_key"], (key,))
                del self._keys[key]
        self._changed.clear()
        if len(self._keys) >= REMEMBERED_KEYS:
            self._keys.clear()

    def _forget(self) -> None:
        """Drop the caches: the transaction was rolled back, or another connection wrote."""
        self._keys.clear()
        self._changed.clear()
        self._total_bytes = None

    def _tag(self, key: InboxKey, now_ms: int) -> SessionTag:
        return inbox_tag(self._tag_secret, key, at_ms=now_ms)
