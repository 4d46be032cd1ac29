"""What a host tells a link machine (events, in the past tense), and what the machine orders (effects)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from restante.core.link.table import Input
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import NodeKey
from restante.wire.frames.codec import Frame, RawFrame
from restante.wire.frames.greeting import Hello


class CloseReason(StrEnum):
    """Why an end gave up a connection. A fixed list, so that it can be logged and counted."""

    HANDSHAKE_FAILED = "handshake_failed"
    HANDSHAKE_TIMEOUT = "handshake_timeout"
    PROTOCOL_ERROR = "protocol_error"
    FRAME_TIMEOUT = "frame_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    SLOW_READER = "slow_reader"
    WRONG_NODE = "wrong_node"
    WRONG_VERSION = "wrong_version"


@dataclass(frozen=True, slots=True)
class NodeSecured:
    """The node's TLS handshake is done; `hello` carries the challenge drawn for this connection."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class ClientSecured:
    """The client's TLS handshake is done; `peer_key` is the key of the certificate, if it had one."""

    peer_key: NodeKey | None


@dataclass(frozen=True, slots=True)
class FramesReceived:
    """Whole frames arrived; `partial_bytes` of a further one are buffered."""

    frames: list[RawFrame]
    partial_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Faulted:
    """The peer broke TLS or the frame format."""

    error: RestanteError


@dataclass(frozen=True, slots=True)
class Signal:
    """An event without data: flow control, a timer, a close request, the end of the connection."""

    input: Input


Event = NodeSecured | ClientSecured | FramesReceived | Faulted | Signal

TIME_PASSED = Signal(Input.TIME_PASSED)
CLOSE_REQUESTED = Signal(Input.CLOSE_REQUESTED)
WRITE_BLOCKED = Signal(Input.WRITE_BLOCKED)
WRITE_RESUMED = Signal(Input.WRITE_RESUMED)
READING_PAUSED = Signal(Input.READING_PAUSED)
READING_RESUMED = Signal(Input.READING_RESUMED)
LOST = Signal(Input.LOST)


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes to the peer."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer a request with REFUSED; the connection stays."""

    request: int
    code: Code
    text: str


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Give these frames to the handler of one family."""

    family: int
    frames: list[RawFrame]


@dataclass(frozen=True, slots=True)
class Answer:
    """Hand the answer to the caller that opened the request with `waiting`."""

    waiting: Any
    frame: Frame


@dataclass(frozen=True, slots=True)
class ExpireRequests:
    """Fail the requests whose deadline has passed; they were opened with `waiting`."""

    waiting: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class BecomeReady:
    """The greeting is done; requests may be opened."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class ReportFault:
    """The peer broke a rule in a frame. Feed it back as `Faulted` after the effects before it are executed."""

    error: RestanteError


@dataclass(frozen=True, slots=True)
class StopReading:
    """Read no more bytes from the peer."""


@dataclass(frozen=True, slots=True)
class StartReading:
    """Read from the peer again."""


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """Tell all families that the peer reads again."""


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Feed `TIME_PASSED` at this time; replaces the timer ordered before."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Close:
    """Write what is buffered, then end the connection."""

    reason: CloseReason | None = None


@dataclass(frozen=True, slots=True)
class Abort:
    """End the connection now."""

    reason: CloseReason | None = None


Effect = (
    Send
    | Refuse
    | Dispatch
    | Answer
    | ExpireRequests
    | BecomeReady
    | ReportFault
    | StopReading
    | StartReading
    | OpenWindow
    | WakeAt
    | Close
    | Abort
)
