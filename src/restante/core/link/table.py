"""Which input is legal in which phase of a link, and which phases it may lead to.

Both ends read these tables at each step, and the tests read them to try every pair. A pair that is not listed is
illegal: a local input raises `LocalProtocolError`, an input from the peer is a `RemoteProtocolError`, and neither
changes anything. Where several phases are listed, the rule in `node_end` or `client_end` chooses one of them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    CONNECTING = "connecting"
    """The TLS handshake is running."""
    GREETING = "greeting"
    """TLS is established; HELLO or START is still missing."""
    READY = "ready"
    """Frames of all families may be exchanged."""
    CLOSING = "closing"
    """The last bytes are being written. What the peer still sends is ignored."""
    CLOSED = "closed"


class Input(StrEnum):
    SECURED = "secured"
    CLOSE_REQUESTED = "close_requested"
    WRITE_BLOCKED = "write_blocked"
    WRITE_RESUMED = "write_resumed"
    READING_PAUSED = "reading_paused"
    READING_RESUMED = "reading_resumed"
    TIME_PASSED = "time_passed"
    REQUEST_OPENED = "request_opened"

    HELLO = "hello"
    START = "start"
    PING = "ping"
    PONG = "pong"
    REFUSED = "refused"
    FAMILY = "family"
    """A frame of a registered family."""
    UNKNOWN = "unknown"
    """A frame of a type that no registered family handles."""
    FAULT = "fault"
    """Bytes that break TLS or the frame format."""
    LOST = "lost"


FRAMES: Final = (Input.HELLO, Input.START, Input.PING, Input.PONG, Input.REFUSED, Input.FAMILY, Input.UNKNOWN)
REMOTE: Final = frozenset({*FRAMES, Input.FAULT, Input.LOST})
"""Inputs that the peer causes. All others come from the host, so an illegal one is a bug of ours."""

Table = Mapping[Phase, Mapping[Input, frozenset[Phase]]]

_CONNECTING: Final = frozenset({Phase.CONNECTING})
_GREETING: Final = frozenset({Phase.GREETING})
_READY: Final = frozenset({Phase.READY})
_CLOSING: Final = frozenset({Phase.CLOSING})
_CLOSED: Final = frozenset({Phase.CLOSED})


def _flow(same: frozenset[Phase]) -> dict[Input, frozenset[Phase]]:
    """Flow control is possible in every phase and changes none."""
    return dict.fromkeys((Input.WRITE_BLOCKED, Input.WRITE_RESUMED, Input.READING_PAUSED, Input.READING_RESUMED), same)


_ENDING: Final[Table] = {
    Phase.CLOSING: {
        **_flow(_CLOSING),
        **dict.fromkeys((*FRAMES, Input.FAULT, Input.CLOSE_REQUESTED), _CLOSING),
        Input.TIME_PASSED: _CLOSING | _CLOSED,
        Input.LOST: _CLOSED,
    },
    Phase.CLOSED: {
        **_flow(_CLOSED),
        **dict.fromkeys((*FRAMES, Input.FAULT, Input.CLOSE_REQUESTED, Input.TIME_PASSED, Input.LOST), _CLOSED),
    },
}

NODE_TABLE: Final[Table] = {
    Phase.CONNECTING: {
        **_flow(_CONNECTING),
        Input.SECURED: _GREETING,
        Input.TIME_PASSED: _CONNECTING | _CLOSED,
        Input.CLOSE_REQUESTED: _CLOSED,
        Input.FAULT: _CLOSED,
        Input.LOST: _CLOSED,
    },
    Phase.GREETING: {
        **_flow(_GREETING),
        Input.START: _READY | _CLOSING,
        Input.PING: _GREETING,
        Input.UNKNOWN: _GREETING,
        Input.TIME_PASSED: _GREETING | _CLOSED,
        Input.CLOSE_REQUESTED: _CLOSING,
        Input.FAULT: _CLOSING,
        Input.LOST: _CLOSED,
    },
    Phase.READY: {
        **_flow(_READY),
        Input.FAMILY: _READY,
        Input.PING: _READY,
        Input.UNKNOWN: _READY,
        Input.TIME_PASSED: _READY | _CLOSED,
        Input.CLOSE_REQUESTED: _CLOSING,
        Input.FAULT: _CLOSING,
        Input.LOST: _CLOSED,
    },
    **_ENDING,
}

CLIENT_TABLE: Final[Table] = {
    Phase.CONNECTING: {
        **_flow(_CONNECTING),
        Input.SECURED: _GREETING | _CLOSED,
        Input.TIME_PASSED: _CONNECTING | _CLOSED,
        Input.CLOSE_REQUESTED: _CLOSED,
        Input.FAULT: _CLOSED,
        Input.LOST: _CLOSED,
    },
    Phase.GREETING: {
        **_flow(_GREETING),
        Input.HELLO: _READY | _CLOSED,
        Input.TIME_PASSED: _GREETING | _CLOSED,
        Input.CLOSE_REQUESTED: _CLOSING,
        Input.FAULT: _CLOSED,
        Input.LOST: _CLOSED,
    },
    Phase.READY: {
        **_flow(_READY),
        Input.REQUEST_OPENED: _READY,
        Input.FAMILY: _READY,
        Input.REFUSED: _READY,
        Input.PING: _READY,
        Input.PONG: _READY,
        Input.TIME_PASSED: _READY | _CLOSED,
        Input.CLOSE_REQUESTED: _CLOSING,
        Input.FAULT: _CLOSED,
        Input.LOST: _CLOSED,
    },
    **_ENDING,
}
