"""Decide what ends an outbox entry, and when an unacknowledged one is stored again (SPEC 3.8, 10.4)."""

from typing import Final

from restante.model.kinds import Kind
from restante.model.states import Route

STORE_LIFE_MS: Final = 30 * 86_400_000  # SPEC 6.6: a node keeps nothing longer
RESTORE_MARGIN_MS: Final = 86_400_000  # SPEC 10.4: one day before the stored copy expires
# Module-level names, because on Python 3.11 reading an enum member from its class is ten times slower.
_CHANNEL: Final = Route.CHANNEL
_CONTROL: Final = Kind.CONTROL


def ends_when_accepted(route: Route, kind: Kind) -> bool:
    """Return whether acceptance by the next hop ends the entry.

    Channels have no acks. Control messages carry acks themselves: an ack of an ack would never end
    (docs/decisions/0006).
    """
    return route is _CHANNEL or kind is _CONTROL


def restore_at_ms(*, sent_at_ms: int, expires_at_ms: int) -> int:
    """Return when a message that is stored and has no RECEIPT ack is put again. It is never later than its expiry."""
    return min(sent_at_ms + STORE_LIFE_MS - RESTORE_MARGIN_MS, expires_at_ms)
