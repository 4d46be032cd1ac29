"""How long a message lives, for its reader and for those who carry it (SPEC 2.3, 2.5, 2.6).

Knows neither the clock nor where a message is; both come in as arguments.
"""

from typing import Final, assert_never

from restante.model.errors import OutOfRange
from restante.model.kinds import KIND_RULES, Kind, TtlType
from restante.policy.completion import STORE_LIFE_MS

SECOND_MS: Final = 1_000


def resolve_ttl_s(kind: Kind, asked_s: int | None) -> int:
    """The life a message gets: what was asked for, or the default of its kind.

    A value outside the range of the kind is refused, never clamped (SPEC 2.5).
    """
    rule = KIND_RULES[kind]
    if asked_s is None and rule.ttl_default_s is not None:
        return rule.ttl_default_s
    if asked_s is None or not rule.ttl_min_s <= asked_s <= rule.ttl_max_s:
        shown = "nothing (this kind has no default, so the sender must choose)" if asked_s is None else asked_s
        raise OutOfRange(f"ttl_s of {kind}", shown, low=rule.ttl_min_s, high=rule.ttl_max_s, unit="s")
    return asked_s


def expiry_ms(*, ttl_type: TtlType, created_at_ms: int, ttl_s: int, first_read_at_ms: int | None) -> int | None:
    """When the reader loses the message; None while that moment is not yet fixed (relative and unread)."""
    match ttl_type:
        case TtlType.ABSOLUTE:
            return created_at_ms + ttl_s * SECOND_MS
        case TtlType.RELATIVE:
            return None if first_read_at_ms is None else first_read_at_ms + ttl_s * SECOND_MS
        case _:
            assert_never(ttl_type)


def transport_expiry_ms(*, ttl_type: TtlType, created_at_ms: int, ttl_s: int) -> int:
    """Until when the sender may keep carrying the message.

    An unread relative message never expires for its reader, yet an outbox must not hold it forever: it is carried
    for as long as a node would store it.
    """
    match ttl_type:
        case TtlType.ABSOLUTE:
            return created_at_ms + ttl_s * SECOND_MS
        case TtlType.RELATIVE:
            return created_at_ms + STORE_LIFE_MS
        case _:
            assert_never(ttl_type)


def is_expired(expires_at_ms: int | None, now_ms: int) -> bool:
    """Whether the end has come; the very millisecond of `expires_at_ms` is already too late (SPEC 2.6)."""
    return expires_at_ms is not None and now_ms >= expires_at_ms
