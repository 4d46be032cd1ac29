"""How long a given-up message is kept, and when it gets another chance (SPEC 5.2, 5.3, 5.4).

Why it was given up is decided in policy/failures and core; here only what follows from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from restante.model.kinds import TtlType
from restante.model.setting_ranges import check_ranges, ranged
from restante.model.states import DeadCategory, DeadReason
from restante.policy.ttl import is_expired, transport_expiry_ms

DAY_MS: Final = 86_400_000

_CATEGORY_OF: Final[Mapping[DeadReason, DeadCategory]] = MappingProxyType(
    {
        DeadReason.ATTEMPTS_EXHAUSTED: DeadCategory.RETRIABLE,
        DeadReason.QUEUE_TIME_EXCEEDED: DeadCategory.RETRIABLE,
        DeadReason.PERMANENT_FAILURE: DeadCategory.PERMANENT,
        # Taken back on purpose: a daily retry would send what its author withdrew.
        DeadReason.CANCELLED: DeadCategory.PERMANENT,
        DeadReason.EXPIRED: DeadCategory.EXPIRED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRetention:
    retriable_ms: int = ranged(7 * DAY_MS, low=DAY_MS, high=90 * DAY_MS, unit="ms", clause="5.3")
    permanent_ms: int = ranged(30 * DAY_MS, low=DAY_MS, high=365 * DAY_MS, unit="ms", clause="5.3")
    tombstone_ms: int = ranged(DAY_MS, low=3_600_000, high=30 * DAY_MS, unit="ms", clause="5.3")
    # SPEC 5.3 allows one automatic retry a day: it may be made rarer, never more frequent.
    auto_retry_every_ms: int = ranged(DAY_MS, low=DAY_MS, high=7 * DAY_MS, unit="ms", clause="5.3")

    def __post_init__(self) -> None:
        check_ranges(self, "dead_letters")


def category_of(reason: DeadReason) -> DeadCategory:
    """How a letter that was given up for this reason is treated."""
    return _CATEGORY_OF[reason]


def keeps_payload(category: DeadCategory) -> bool:
    """Whether the message itself is kept; what expired leaves only a tombstone (SPEC 5.2)."""
    return category is not DeadCategory.EXPIRED


def expires_at_ms(retention: DeadLetterRetention, *, category: DeadCategory, moved_at_ms: int) -> int:
    """When the dead letter itself is deleted."""
    kept_ms = {
        DeadCategory.RETRIABLE: retention.retriable_ms,
        DeadCategory.PERMANENT: retention.permanent_ms,
        DeadCategory.EXPIRED: retention.tombstone_ms,
    }[category]
    return moved_at_ms + kept_ms


def next_auto_retry_ms(
    retention: DeadLetterRetention,
    *,
    category: DeadCategory,
    moved_at_ms: int,
    last_retry_at_ms: int | None,
    letter_expires_at_ms: int,
    message_expires_at_ms: int,
) -> int | None:
    """When the letter is next tried without anybody asking; None when that will not happen again.

    `last_retry_at_ms` is the latest automatic retry, if there was one.
    """
    if category is not DeadCategory.RETRIABLE:
        return None
    counted_from = moved_at_ms if last_retry_at_ms is None else max(moved_at_ms, last_retry_at_ms)
    due = counted_from + retention.auto_retry_every_ms
    if is_expired(letter_expires_at_ms, due) or is_expired(message_expires_at_ms, due):
        return None
    return due


def recovered_expiry_ms(
    *, ttl_s: int, expires_at_ms: int, now_ms: int, ttl_type: TtlType = TtlType.ABSOLUTE
) -> int | None:
    """The new end of a message that `recover` puts back; None when it has expired and cannot be recovered."""
    if is_expired(expires_at_ms, now_ms):
        return None
    return transport_expiry_ms(ttl_type=ttl_type, created_at_ms=now_ms, ttl_s=ttl_s)
