"""The store behind a node's mailboxes, as the node sees it (SPEC 6.1)."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from restante.core.mailbox import Keep, Usage
from restante.model.ids import InboxKey, PayloadHash
from restante.policy.quota import MailboxQuota, Refusal
from restante.ports.relay_connection import StoredBlob


class DamagedBlob(NamedTuple):
    """A blob whose envelope no longer has the hash under which it was stored."""

    blob_id: int
    payload_hash: PayloadHash


class BlobPage(NamedTuple):
    """Intact blobs to serve, and the damaged ones that were found for the first time.

    `has_more` is False if there was nothing behind the page when it was read.
    """

    blobs: list[StoredBlob]
    damaged: list[DamagedBlob]
    has_more: bool


class MailboxStore(Protocol):
    """Put, flush, delete and reap, each for many blobs, and the usage that quotas need.

    A change is durable when the call returns, or with the transaction in which the caller makes it. All calls raise
    `StoreUnusable`.
    """

    def put_all(
        self, keeps: Sequence[Keep], *, quota: MailboxQuota, now_ms: int, may_reap: bool = True
    ) -> list[int | Refusal]:
        """Return for each blob its id, or why there was no space.

        Never deduplicates and never evicts; expired blobs of a full mailbox are reaped first if `may_reap`.
        """
        ...

    def usage(self, inbox: InboxKey) -> Usage:
        """Return what the mailbox holds, including expired blobs that were not reaped yet."""
        ...

    def flush(self, inbox: InboxKey, *, after: int, limit: int, max_bytes: int, now_ms: int) -> BlobPage:
        """Return live, intact, committed blobs with an id above `after` in insertion order; delete nothing.

        At most `limit` blobs and `max_bytes` of envelopes, but always the first one, whatever its size.
        """
        ...

    def journal_damaged(self, damaged: Sequence[DamagedBlob], *, now_ms: int) -> None:
        """Append a journal event for each damaged blob (SPEC 6.3)."""
        ...

    def delete_all(self, inbox: InboxKey, blob_ids: Sequence[int], *, now_ms: int) -> int:
        """Delete those of these blobs that are in this mailbox, and return how many there were."""
        ...

    def reap(self, *, now_ms: int, limit: int | None = None) -> int:
        """Delete expired blobs, all of them or the first `limit`, and return how many."""
        ...
