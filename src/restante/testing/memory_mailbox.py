"""A mailbox store in memory, for tests and simulations. It is not durable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from restante.core.mailbox import Keep, Usage
from restante.model.ids import InboxKey
from restante.model.sources import UNKNOWN_SOURCE, Source
from restante.policy.quota import (
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

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A blob with its mailbox and expiry."""

    inbox: InboxKey
    expires_at_ms: int
    blob: StoredBlob
    source: Source


class MemoryMailbox:
    """Implements `MailboxStore` in memory, without a journal."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self._last_id = 0

    def put_all(
        self, keeps: Sequence[Keep], *, quota: MailboxQuota, now_ms: int, may_reap: bool = True
    ) -> list[int | Refusal]:
        return [self._put(keep, quota, now_ms, may_reap=may_reap) for keep in keeps]

    def usage(self, inbox: InboxKey) -> Usage:
        sizes = [len(held.blob.envelope) for held in self._held.values() if held.inbox == inbox]
        return Usage(blobs=len(sizes), total_bytes=sum(sizes))

    def flush(self, inbox: InboxKey, *, after: int, limit: int, max_bytes: int, now_ms: int) -> BlobPage:
        page: list[StoredBlob] = []
        has_more = False
        for held in self._held.values():
            if held.inbox != inbox or held.blob.blob_id <= after or held.expires_at_ms <= now_ms:
                continue
            max_bytes -= len(held.blob.envelope)
            has_more = len(page) == limit or (bool(page) and max_bytes < 0)
            if has_more:
                break
            page.append(held.blob)
        return BlobPage(page, [], has_more)

    def journal_damaged(self, damaged: Sequence[DamagedBlob], *, now_ms: int) -> None:
        """Do nothing: this store has no disk that could damage a blob, and no journal."""

    def delete_all(self, inbox: InboxKey, blob_ids: Sequence[int], *, now_ms: int) -> int:  # noqa: ARG002 - no journal to date it in
        mine = {blob_id for blob_id in blob_ids if blob_id in self._held and self._held[blob_id].inbox == inbox}
        for blob_id in mine:
            del self._held[blob_id]
        return len(mine)

    def reap(self, *, now_ms: int, limit: int | None = None) -> int:
        outlived = [blob_id for blob_id, held in self._held.items() if held.expires_at_ms <= now_ms][:limit]
        for blob_id in outlived:
            del self._held[blob_id]
        return len(outlived)

    def _put(self, keep: Keep, quota: MailboxQuota, now_ms: int, *, may_reap: bool) -> int | Refusal:
        refused = self._full(keep, quota)
        if refused is not None and may_reap:
            self._sweep(keep.inbox_key, now_ms)
            refused = self._full(keep, quota)
        refused = refused or self._over_share(keep, quota)
        if refused is not None:
            return refused
        self._last_id += 1  # an id is never given twice, or a late delete could hit another blob
        blob = StoredBlob(blob_id=self._last_id, stored_at_ms=now_ms, envelope=keep.envelope)
        self._held[blob.blob_id] = _Held(
            inbox=keep.inbox_key, expires_at_ms=keep.expires_at_ms, blob=blob, source=keep.source
        )
        return blob.blob_id

    def _full(self, keep: Keep, quota: MailboxQuota) -> Refusal | None:
        usage = self.usage(keep.inbox_key)
        return check_space(
            quota,
            held_blobs=usage.blobs,
            held_bytes=usage.total_bytes,
            total_bytes=self._total_bytes(),
            more_bytes=len(keep.envelope),
        )

    def _over_share(self, keep: Keep, quota: MailboxQuota) -> Refusal | None:
        """Return why the source may not store more where space is scarce, or None."""
        if keep.source == UNKNOWN_SOURCE:
            return None
        own = [held for held in self._held.values() if held.source == keep.source]
        here = [len(held.blob.envelope) for held in own if held.inbox == keep.inbox_key]
        more_bytes, usage = len(keep.envelope), self.usage(keep.inbox_key)
        refused = None
        if is_total_scarce(quota, self._total_bytes()):
            source_bytes = sum(len(held.blob.envelope) for held in own)
            refused = check_share_of_total(quota, source_bytes=source_bytes, more_bytes=more_bytes)
        if refused is None and is_mailbox_scarce(quota, usage.blobs, usage.total_bytes):
            refused = check_share_of_mailbox(
                quota, source_blobs=len(here), source_bytes=sum(here), more_bytes=more_bytes
            )
        return refused

    def _total_bytes(self) -> int:
        return sum(len(held.blob.envelope) for held in self._held.values())

    def _sweep(self, inbox: InboxKey, now_ms: int) -> None:
        self._held = {
            blob_id: held for blob_id, held in self._held.items() if held.inbox != inbox or held.expires_at_ms > now_ms
        }
