"""Retention and automatic retries of dead letters (SPEC 5.2, 5.3, 5.4).

policy/failures and core/outbox decide when an entry becomes a dead letter.
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
        # The user cancelled it: a daily retry would send what the user withdrew.
        DeadReason.CANCELLED: DeadCategory.PERMANENT,
        DeadReason.EXPIRED: DeadCategory.EXPIRED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRetention:
    """The settings of dead letters."""

    permanent_retention_ms: int = ranged(30 * DAY_MS, low=DAY_MS, high=365 * DAY_MS, unit="ms", clause="5.3")
    tombstone_retention_ms: int = ranged(DAY_MS, low=3_600_000, high=30 * DAY_MS, unit="ms", clause="5.3")
    # SPEC 5.3 allows one automatic retry a day; the setting can only make it rarer.
    auto_retry_interval_ms: int = ranged(DAY_MS, low=DAY_MS, high=7 * DAY_MS, unit="ms", clause="5.3")

    def __post_init__(self) -> None:
        check_ranges(self, "dead_letters")


def category_of(reason: DeadReason) -> DeadCategory:
    """Return the category of a dead letter that was given up for this reason."""
    return _CATEGORY_OF[reason]


def keeps_payload(category: DeadCategory) -> bool:
    """Return whether the payload is retained. An expired message leaves only a tombstone (SPEC 5.2)."""
    return category is not DeadCategory.EXPIRED


def expires_at_ms(
    retention: DeadLetterRetention, *, category: DeadCategory, moved_at_ms: int, message_expires_at_ms: int
) -> int:
    """Return when the dead letter itself is deleted: a retriable one with its message (SPEC 5.3)."""
    match category:
        case DeadCategory.RETRIABLE:
            return message_expires_at_ms
        case DeadCategory.PERMANENT:
            return moved_at_ms + retention.permanent_retention_ms
        case DeadCategory.EXPIRED:
            return moved_at_ms + retention.tombstone_retention_ms


def next_auto_retry_ms(
    retention: DeadLetterRetention,
    *,
    category: DeadCategory,
    moved_at_ms: int,
    last_retry_at_ms: int | None,
    letter_expires_at_ms: int,
    message_expires_at_ms: int,
) -> int | None:
    """Return when the dead letter is next retried automatically, or None if never.

    `last_retry_at_ms` is the latest automatic retry, if there was one.
    """
    if category is not DeadCategory.RETRIABLE:
        return None
    counted_from = moved_at_ms if last_retry_at_ms is None else max(moved_at_ms, last_retry_at_ms)
    due = counted_from + retention.auto_retry_interval_ms
    if is_expired(letter_expires_at_ms, due) or is_expired(message_expires_at_ms, due):
        return None
    return due


def recovered_expiry_ms(
    *, ttl_s: int, expires_at_ms: int, now_ms: int, ttl_type: TtlType = TtlType.ABSOLUTE
) -> int | None:
    """Return the new expiry of a message that `recover` puts back, or None if it has expired and cannot be
    recovered."""
    if is_expired(expires_at_ms, now_ms):
        return None
    return transport_expiry_ms(ttl_type=ttl_type, created_at_ms=now_ms, ttl_s=ttl_s)
