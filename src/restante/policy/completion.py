"""When the sender may stop caring: what ends an entry, and when an unconfirmed one is stored again (SPEC 3.8, 10.4)."""

from typing import Final

from restante.model.kinds import Kind
from restante.model.states import Route

STORE_LIFE_MS: Final = 30 * 86_400_000  # SPEC 6.6: a node keeps nothing longer
RESTORE_MARGIN_MS: Final = 86_400_000  # SPEC 10.4 "near the end": one day before the stored copy lapses
# By these names in what every message passes: on Python 3.11 a member takes ten times as long to read from its class.
_CHANNEL: Final = Route.CHANNEL
_CONTROL: Final = Kind.CONTROL


def ends_when_accepted(route: Route, kind: Kind) -> bool:
    """Whether the next hop's acceptance already ends the entry.

    Channels have no receipts. Control messages carry acknowledgements themselves: waiting for an acknowledgement of
    an acknowledgement would never end (docs/decisions/0006).
    """
    return route is _CHANNEL or kind is _CONTROL


def restore_at_ms(*, sent_at_ms: int, expires_at_ms: int) -> int:
    """When a stored but unreceipted message is put again; never before its own end if that comes first."""
    return min(sent_at_ms + STORE_LIFE_MS - RESTORE_MARGIN_MS, expires_at_ms)
