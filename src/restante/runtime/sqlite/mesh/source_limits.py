"""Whether there is space for a put in the mesh store, and what its source may still store (SPEC 6.6)."""

from typing import Final, NamedTuple

from restante.core.mailbox import Keep
from restante.core.source_usage import Share, SourceUsage
from restante.model.sources import UNKNOWN_SOURCE
from restante.policy.quota import (
    MailboxQuota,
    Refusal,
    check_share_of_mailbox,
    check_share_of_total,
    check_space,
    is_mailbox_scarce,
    is_total_scarce,
    room_in_mailbox,
    room_in_total,
)
from restante.runtime.sqlite.file.database import Database, load_queries

_SIZES: Final = load_queries("mesh/store")["sizes"]


class Held(NamedTuple):
    """What there is before a put: under its key, and in the whole node."""

    blobs: int
    size_bytes: int
    total_bytes: int


class Room(NamedTuple):
    """What a source may still store, in bytes: in all, and under one key. None where it is not limited."""

    in_total: int | None
    in_mailbox: int | None


NOT_LIMITED: Final = Room(None, None)


class SourceLimits:
    def __init__(self, database: Database, sources: SourceUsage) -> None:
        self._database = database
        self._sources = sources

    def check(self, keep: Keep, held: Held, quota: MailboxQuota) -> Refusal | None:
        """Return why this blob is not stored, or None."""
        size_bytes = len(keep.envelope)
        refused = check_space(
            quota,
            held_blobs=held.blobs,
            held_bytes=held.size_bytes,
            total_bytes=held.total_bytes,
            more_bytes=size_bytes,
        )
        if refused is not None or keep.source == UNKNOWN_SOURCE:
            return refused
        if is_total_scarce(quota, held.total_bytes):
            of_source = self._sources.total_bytes(keep.source)
            refused = check_share_of_total(quota, source_bytes=of_source, more_bytes=size_bytes)
        if refused is None and is_mailbox_scarce(quota, held.blobs, held.size_bytes):
            share = self._share(keep)
            refused = check_share_of_mailbox(
                quota, source_blobs=share.blobs, source_bytes=share.size_bytes, more_bytes=size_bytes
            )
        return refused

    def room(self, keep: Keep, held: Held, quota: MailboxQuota) -> Room:
        """Return what the source of this blob may still store."""
        of_source = self._sources.total_bytes(keep.source)
        in_total = room_in_total(quota, total_bytes=held.total_bytes, source_bytes=of_source)
        if not is_mailbox_scarce(quota, held.blobs, held.size_bytes):
            return Room(in_total, None)
        share = self._share(keep)
        in_mailbox = room_in_mailbox(
            quota,
            held_blobs=held.blobs,
            held_bytes=held.size_bytes,
            source_blobs=share.blobs,
            source_bytes=share.size_bytes,
            blob_bytes=len(keep.envelope),
        )
        return Room(in_total, in_mailbox)

    def _share(self, keep: Keep) -> Share:
        share = self._sources.share(keep.inbox_key, keep.source)
        if share is None:
            self._sources.count_mailbox(keep.inbox_key, self._database.rows(_SIZES, keep.inbox_key))
            share = self._sources.share(keep.inbox_key, keep.source)
        return share or Share(0, 0)
