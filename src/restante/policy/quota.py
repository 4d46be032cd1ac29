"""Decide what a node stores for one recipient and until when (SPEC 6.6, 6.7).

A node sees only the size and the rounded expiry of an envelope. It never evicts a blob to make room.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from restante.model.error_codes import Code
from restante.model.kinds import TtlType
from restante.model.limits import MAX_SEALED_BYTES
from restante.model.setting_ranges import check_ranges, ranged
from restante.policy.completion import STORED_TTL_MS

HOUR_MS: Final = 3_600_000
SOURCE_SHARE_OF_TOTAL: Final = 10
RECORDS_SHARE_OF_TOTAL: Final = 10  # all prekey records together take at most a tenth
SOURCE_SHARE_OF_MAILBOX: Final = 4
"""SPEC 6.6: one source may hold a tenth of the total, or of what records may take, and a quarter of a mailbox's quota,
once half is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxQuota:
    """What a node stores for one mailbox, and `total_bytes` for all of them. MB is 10^6 bytes."""

    max_bytes: int = ranged(100_000_000, low=1_000_000, high=100_000_000_000, unit="bytes", clause="6.6")
    max_blobs: int = ranged(10_000, low=100, high=10_000_000, unit="blobs", clause="6.6")
    max_blob_bytes: int = ranged(MAX_SEALED_BYTES, low=16_384, high=MAX_SEALED_BYTES, unit="bytes", clause="6.6")
    max_ttl_ms: int = ranged(STORED_TTL_MS, low=86_400_000, high=STORED_TTL_MS, unit="ms", clause="6.6")
    min_ttl_ms: int = ranged(HOUR_MS, low=60_000, high=24 * HOUR_MS, unit="ms", clause="6.6")
    total_bytes: int = ranged(10_000_000_000, low=1_000_000, high=100_000_000_000_000, unit="bytes", clause="6.6")

    def __post_init__(self) -> None:
        check_ranges(self, "mailbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a blob was not stored. Only a temporary refusal is worth another attempt (SPEC 6.7)."""

    permanent: bool
    code: Code
    text: str


DISK_FULL: Final = Refusal(permanent=False, code=Code.STORAGE_FAILED, text="the disk of this node is full")


def storage_expiry_ms(*, ttl_type: TtlType, expires_at_ms: int, now_ms: int) -> int:
    """Return the expiry a sender writes on an envelope: its own, at most 30 days ahead, rounded up to a whole hour.

    The rounding keeps a node from computing the time of sending from a round TTL.
    """
    longest = now_ms + STORED_TTL_MS
    wanted = longest if ttl_type is TtlType.RELATIVE else min(expires_at_ms, longest)
    return _round_up_to_hour(wanted)


def check_envelope(quota: MailboxQuota, *, blob_bytes: int, expires_at_ms: int, now_ms: int) -> Refusal | None:
    """Return why the blob is refused whatever space there is, or None. `blob_bytes` is the size of its sealed bytes.

    Only the size is refused permanently: the rest depends on the node's clock (SPEC 6.10).
    """
    if blob_bytes > quota.max_blob_bytes:
        text = f"the blob has {blob_bytes} bytes; at most {quota.max_blob_bytes} are allowed"
        return Refusal(permanent=True, code=Code.MESSAGE_TOO_LARGE, text=text)
    if expires_at_ms - now_ms < quota.min_ttl_ms:
        text = f"less than {quota.min_ttl_ms} ms remain until the expiry, by this node's clock"
        return Refusal(permanent=False, code=Code.OUT_OF_RANGE, text=text)
    return None


def latest_expiry_ms(quota: MailboxQuota, *, now_ms: int) -> int:
    """Return the expiry to which a node cuts a later one, by its own clock."""
    return now_ms + quota.max_ttl_ms


def check_space(
    quota: MailboxQuota, *, held_blobs: int, held_bytes: int, total_bytes: int, more_bytes: int
) -> Refusal | None:
    """Return why there is no space for one more blob now, or None. Sizes are those of whole envelopes, as stored."""
    if held_blobs >= quota.max_blobs or held_bytes + more_bytes > quota.max_bytes:
        return _full(f"the mailbox is full: at most {quota.max_blobs} blobs and {quota.max_bytes} bytes")
    if total_bytes + more_bytes > quota.total_bytes:
        return _full("the node is full")
    return None


def check_records(quota: MailboxQuota, *, held_bytes: int, more_bytes: int) -> Refusal | None:
    """Return why there is no space for a prekey record, or None. Anybody can sign records, so mail keeps the rest."""
    if (held_bytes + more_bytes) * RECORDS_SHARE_OF_TOTAL <= quota.total_bytes:
        return None
    return _full("the node holds as many prekey records as it may")


def check_share_of_records(
    quota: MailboxQuota, *, held_bytes: int, source_bytes: int, more_bytes: int
) -> Refusal | None:
    """Return why one source may not put more prekey records, or None. As for mail, its share counts once half of what
    records may take is used: a tenth of that."""
    if 2 * held_bytes * RECORDS_SHARE_OF_TOTAL <= quota.total_bytes:
        return None
    if (source_bytes + more_bytes) * SOURCE_SHARE_OF_TOTAL * RECORDS_SHARE_OF_TOTAL <= quota.total_bytes:
        return None
    return _full("prekey records take more than half of their space, and your network holds its share of it")


def is_total_scarce(quota: MailboxQuota, total_bytes: int) -> bool:
    """Return whether more than half of the node's space is used, so that a source's share counts."""
    return 2 * total_bytes > quota.total_bytes


def is_mailbox_scarce(quota: MailboxQuota, held_blobs: int, held_bytes: int) -> bool:
    """Return whether more than half of a mailbox's quota is used, so that a source's share counts."""
    return 2 * held_blobs > quota.max_blobs or 2 * held_bytes > quota.max_bytes


def check_share_of_total(quota: MailboxQuota, *, source_bytes: int, more_bytes: int) -> Refusal | None:
    """Return why one source may not store more while the node's space is scarce, or None."""
    if (source_bytes + more_bytes) * SOURCE_SHARE_OF_TOTAL <= quota.total_bytes:
        return None
    return _full("the node is more than half full, and your network holds its share of it")


def check_share_of_mailbox(
    quota: MailboxQuota, *, source_blobs: int, source_bytes: int, more_bytes: int
) -> Refusal | None:
    """Return why one source may not store more in a mailbox that is more than half full, or None."""
    blobs, size_bytes = source_blobs + 1, source_bytes + more_bytes
    if blobs * SOURCE_SHARE_OF_MAILBOX <= quota.max_blobs and size_bytes * SOURCE_SHARE_OF_MAILBOX <= quota.max_bytes:
        return None
    return _full("the mailbox is more than half full, and your network holds its share of it")


def room_in_total(quota: MailboxQuota, *, total_bytes: int, source_bytes: int) -> int | None:
    """Return how many more bytes a source may store in all; None while the node limits no source."""
    if not is_total_scarce(quota, total_bytes):
        return None
    own = quota.total_bytes // SOURCE_SHARE_OF_TOTAL - source_bytes
    return max(0, min(own, quota.total_bytes - total_bytes))


def room_in_mailbox(
    quota: MailboxQuota, *, held_blobs: int, held_bytes: int, source_blobs: int, source_bytes: int, blob_bytes: int
) -> int | None:
    """Return how many more bytes a source may store in a mailbox, as blobs of this size; None while it is not limited.

    The quota is in blobs and in bytes. One number for both is right for blobs of one size, as most mail is.
    """
    if not is_mailbox_scarce(quota, held_blobs, held_bytes):
        return None
    blobs = min(quota.max_blobs // SOURCE_SHARE_OF_MAILBOX - source_blobs, quota.max_blobs - held_blobs)
    own = min(quota.max_bytes // SOURCE_SHARE_OF_MAILBOX - source_bytes, quota.max_bytes - held_bytes)
    return max(0, min(own, blobs * blob_bytes))


def _full(text: str) -> Refusal:
    return Refusal(permanent=False, code=Code.STORAGE_FAILED, text=text)


def _round_up_to_hour(at_ms: int) -> int:
    return -(-at_ms // HOUR_MS) * HOUR_MS


# What a client keeps of strangers until the user accepts or blocks them. Anybody who knows the address can write it.
MOST_REQUEST_SENDERS: Final = 100
MOST_REQUESTS_PER_SENDER: Final = 20
MOST_REQUEST_BYTES: Final = 8_388_608
REQUESTS_KEPT_MS: Final = 30 * 86_400_000


class RequestUsage(NamedTuple):
    """What is kept: of all strangers, and of the one that writes now."""

    senders: int
    total_bytes: int
    of_sender: int


def may_keep_request(usage: RequestUsage, *, size_bytes: int) -> bool:
    """Return whether one more message fits. A full store refuses it and deletes no other mail."""
    if usage.of_sender >= MOST_REQUESTS_PER_SENDER or usage.total_bytes + size_bytes > MOST_REQUEST_BYTES:
        return False
    return usage.of_sender > 0 or usage.senders < MOST_REQUEST_SENDERS
