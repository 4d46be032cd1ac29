"""What ends an outbox entry, and when one without receipt is stored again (SPEC 3.8, 3.14, 10.4)."""

from typing import Final

from restante.model.kinds import Kind
from restante.model.states import Route

DAY_MS: Final = 86_400_000
STORED_TTL_MS: Final = 30 * DAY_MS  # SPEC 6.6: a node keeps nothing longer
LEAST_STORED_TTL_MS: Final = 3_600_000  # SPEC 6.6: a node refuses less
FIRST_STORE_AGAIN_MS: Final = DAY_MS  # SPEC 3.14: once, 24 h after it was first stored
STORE_AGAIN_MARGIN_MS: Final = DAY_MS  # SPEC 10.4: one day before the stored copy expires
LONGEST_STORED_WAIT_MS: Final = STORED_TTL_MS - STORE_AGAIN_MARGIN_MS
_ENDS_WHEN_ACCEPTED: Final = frozenset({Route.CHANNEL, Route.UPSTREAM})
_CONTROL: Final = Kind.CONTROL


def ends_when_accepted(route: Route, kind: Kind) -> bool:
    """Return whether the next hop's acceptance already ends the entry.

    Channels and upstream servers send no receipts. Control messages carry acknowledgements themselves: waiting for an
    acknowledgement of an acknowledgement would never end (docs/decisions/0006).
    """
    return route in _ENDS_WHEN_ACCEPTED or kind is _CONTROL


def stores_at_every_place(times_stored: int) -> bool:
    """Return whether an attempt stores the message at every place of its recipient, not at the first that stores it.

    It does from the third time on: the copies of the first two are about to expire (SPEC 10.4).
    """
    return times_stored >= 2


def store_again_at_ms(*, stored_at_ms: int, times_stored: int, expires_at_ms: int) -> int:
    """Return when a stored message without receipt is stored again.

    Return its own expiry if that comes first, or less than an hour later: a node refuses so short a TTL (SPEC 6.6).
    """
    wait_ms = FIRST_STORE_AGAIN_MS if times_stored == 1 else LONGEST_STORED_WAIT_MS
    again_at_ms = stored_at_ms + wait_ms
    return again_at_ms if expires_at_ms - again_at_ms >= LEAST_STORED_TTL_MS else expires_at_ms
