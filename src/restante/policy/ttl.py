"""Compute TTLs and expiry times (SPEC 2.3, 2.5, 2.6). The time is an argument."""

from typing import Final, assert_never

from restante.model.errors import Malformed, OutOfRange
from restante.model.kinds import KIND_RULES, Kind, TtlType
from restante.policy.completion import STORED_TTL_MS

SECOND_MS: Final = 1_000


def resolve_ttl_s(kind: Kind, asked_s: int | None) -> int:
    """Return the TTL of a message: the requested one, or the default of its kind.

    A value outside the range of the kind is refused, never clamped (SPEC 2.5).
    """
    rule = KIND_RULES[kind]
    if asked_s is None and rule.ttl_default_s is not None:
        return rule.ttl_default_s
    if asked_s is not None and type(asked_s) is not int:
        raise Malformed(f"ttl_s must be a whole number of seconds; got {type(asked_s).__name__}")
    if asked_s is None or not rule.ttl_min_s <= asked_s <= rule.ttl_max_s:
        shown = "nothing (this kind has no default, so the sender must choose)" if asked_s is None else asked_s
        raise OutOfRange(f"ttl_s of {kind}", shown, low=rule.ttl_min_s, high=rule.ttl_max_s, unit="s")
    return asked_s


def expiry_ms(*, ttl_type: TtlType, created_at_ms: int, ttl_s: int, first_read_at_ms: int | None) -> int | None:
    """Return when the message expires for its recipient, or None while that is open (relative TTL and unread)."""
    match ttl_type:
        case TtlType.ABSOLUTE:
            return created_at_ms + ttl_s * SECOND_MS
        case TtlType.RELATIVE:
            return None if first_read_at_ms is None else first_read_at_ms + ttl_s * SECOND_MS
        case _:
            assert_never(ttl_type)


def transport_expiry_ms(*, ttl_type: TtlType, created_at_ms: int, ttl_s: int) -> int:
    """Return until when the sender may transmit the message.

    An unread message with a relative TTL never expires for its recipient, but an outbox must not hold it forever. It is
    sent for as long as a node would store it.
    """
    match ttl_type:
        case TtlType.ABSOLUTE:
            return created_at_ms + ttl_s * SECOND_MS
        case TtlType.RELATIVE:
            return created_at_ms + STORED_TTL_MS
        case _:
            assert_never(ttl_type)


def is_expired(expires_at_ms: int | None, now_ms: int) -> bool:
    """Return whether the message has expired. At `expires_at_ms` itself it has (SPEC 2.6)."""
    return expires_at_ms is not None and now_ms >= expires_at_ms
