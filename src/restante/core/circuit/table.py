"""Which event is legal in which phase of a circuit, for the client's end and for a hop's.

The ends read these tables at each step and the tests try every pair. An event of the peer that is not listed destroys
the circuit, with one generic reason; a local call that is not listed raises `LocalProtocolError` and changes nothing.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """The phases of both ends."""

    BUILDING = "building"
    """Client: a hop has not answered yet."""
    READY = "ready"
    """Client: all hops answered, streams may be opened."""
    LAST = "last"
    """Hop: cells of the client end here; this hop is the exit, for now or for good."""
    EXTENDING = "extending"
    """Hop: the next hop was asked and has not answered."""
    RELAYING = "relaying"
    """Hop: cells are passed on in both directions."""
    CLOSED = "closed"


class Input(StrEnum):
    """What can happen, as the tables name it."""

    CREATED = "created"
    """Client: the guard answered. Hop: the next hop answered."""
    FORWARD_CELL = "forward_cell"
    BACKWARD_CELL = "backward_cell"
    SEND = "send"
    """Client or exit: send a command to the other end."""
    EXTENSION_FAILED = "extension_failed"
    DESTROYED = "destroyed"
    CLOSE = "close"


REMOTE: Final = frozenset(
    {Input.CREATED, Input.FORWARD_CELL, Input.BACKWARD_CELL, Input.EXTENSION_FAILED, Input.DESTROYED}
)

Table = Mapping[Phase, Mapping[Input, frozenset[Phase]]]

_BUILDING: Final = frozenset({Phase.BUILDING})
_READY: Final = frozenset({Phase.READY})
_LAST: Final = frozenset({Phase.LAST})
_RELAYING: Final = frozenset({Phase.RELAYING})
_CLOSED: Final = frozenset({Phase.CLOSED})
_ENDS: Final = {Input.DESTROYED: _CLOSED, Input.CLOSE: _CLOSED}
_OVER: Final = dict.fromkeys(Input, _CLOSED)
"""After the end everything is ignored: cells and answers of the other side may still be under way."""

CLIENT_TABLE: Final[Table] = {
    Phase.BUILDING: {
        Input.CREATED: _BUILDING | _CLOSED,
        Input.BACKWARD_CELL: _BUILDING | _READY | _CLOSED,
        **_ENDS,
    },
    Phase.READY: {Input.SEND: _READY, Input.BACKWARD_CELL: _READY | _CLOSED, **_ENDS},
    Phase.CLOSED: _OVER,
}
HOP_TABLE: Final[Table] = {
    Phase.LAST: {
        Input.FORWARD_CELL: _LAST | frozenset({Phase.EXTENDING}) | _CLOSED,
        Input.SEND: _LAST,
        **_ENDS,
    },
    Phase.EXTENDING: {
        Input.CREATED: _RELAYING | _CLOSED,
        Input.EXTENSION_FAILED: _LAST,
        **_ENDS,
    },
    Phase.RELAYING: {
        Input.FORWARD_CELL: _RELAYING | _CLOSED,
        Input.BACKWARD_CELL: _RELAYING | _CLOSED,
        **_ENDS,
    },
    Phase.CLOSED: _OVER,
}
