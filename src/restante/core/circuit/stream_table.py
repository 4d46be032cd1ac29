"""Which event is legal in which phase of a stream, at the exit and at the client.

Both ends read these tables at each step, and tests try every pair. An event of the other end that is not listed
destroys the circuit; a local call that is not listed raises `LocalProtocolError` and changes nothing.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class StreamPhase(StrEnum):
    UPLOADING = "uploading"
    """Exit: pieces of a STORE are still missing."""
    STORING = "storing"
    """The nodes of a STORE have not all answered."""
    DIALLING = "dialling"
    """The exit connects to the node of a BEGIN."""
    OPEN = "open"
    """Bytes of the inner connection are passed on."""
    ENDED = "ended"


class StreamInput(StrEnum):
    DATA = "data"
    """The other end sent bytes."""
    END = "end"
    """The other end closed the stream."""
    STORED = "stored"
    """Client: one node's answer came. Exit: one node has answered."""
    CONNECTED = "connected"
    FAILED = "failed"
    """Client: the exit could not serve the stream. Exit: the node can't be dialled."""
    WRITE = "write"
    """This end sends bytes."""
    CLOSE = "close"
    """This end closes the stream."""


StreamTable = Mapping[StreamPhase, Mapping[StreamInput, frozenset[StreamPhase]]]

_UPLOADING: Final = frozenset({StreamPhase.UPLOADING})
_STORING: Final = frozenset({StreamPhase.STORING})
_OPEN: Final = frozenset({StreamPhase.OPEN})
_ENDED: Final = frozenset({StreamPhase.ENDED})
_OVER: Final = dict.fromkeys(StreamInput, _ENDED)
"""After the end everything is ignored: bytes of the other end may still be under way."""

EXIT_STREAMS: Final[StreamTable] = {
    StreamPhase.UPLOADING: {
        StreamInput.DATA: _UPLOADING | _STORING | _ENDED,
        StreamInput.END: _ENDED,
    },
    StreamPhase.STORING: {StreamInput.STORED: _STORING | _ENDED, StreamInput.END: _ENDED},
    StreamPhase.DIALLING: {
        StreamInput.CONNECTED: _OPEN,
        StreamInput.FAILED: _ENDED,
        StreamInput.END: _ENDED,
    },
    StreamPhase.OPEN: {
        StreamInput.DATA: _OPEN,
        StreamInput.WRITE: _OPEN,
        StreamInput.END: _ENDED,
        StreamInput.CLOSE: _ENDED,
    },
    StreamPhase.ENDED: _OVER,
}
CLIENT_STREAMS: Final[StreamTable] = {
    StreamPhase.STORING: {
        StreamInput.STORED: _STORING,
        StreamInput.FAILED: _ENDED,
        StreamInput.END: _ENDED,
        StreamInput.CLOSE: _ENDED,
    },
    StreamPhase.DIALLING: {
        StreamInput.CONNECTED: _OPEN,
        StreamInput.FAILED: _ENDED,
        StreamInput.END: _ENDED,
        StreamInput.CLOSE: _ENDED,
    },
    StreamPhase.OPEN: {
        StreamInput.DATA: _OPEN,
        StreamInput.WRITE: _OPEN,
        StreamInput.END: _ENDED,
        StreamInput.CLOSE: _ENDED,
    },
    StreamPhase.ENDED: _OVER,
}
