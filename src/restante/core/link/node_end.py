"""The node's end of a link: greets, checks START, hands frames to families, and enforces deadlines (SPEC 6.8).

A frame that is not allowed in the phase is refused and the connection stays, because its end is known. Bytes that break
the format end the connection.
"""

from collections.abc import Mapping
from typing import Final

from restante.core.link.machine import LINGER_S, Link, earliest, pong
from restante.core.link.messages import (
    ClientSecured,
    CloseReason,
    Effect,
    NodeSecured,
    Refuse,
    Send,
)
from restante.core.link.table import NODE_TABLE, Phase
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, RemoteProtocolError, RestanteError
from restante.policy.connection_limits import RelayLimits
from restante.wire.frames import codec
from restante.wire.frames.types import FrameType

NODE_CAPABILITIES: Final = int(codec.Capability.RECEIVE)


class NodeLink(Link):
    """Made when the TCP connection is accepted."""

    def __init__(self, families: Mapping[int, int], limits: RelayLimits, *, now_s: float) -> None:
        super().__init__(NODE_TABLE, families, now_s=now_s)
        self._limits = limits

    def due_s(self) -> float | None:
        limits = self._limits
        match self.phase:
            case Phase.CONNECTING | Phase.GREETING:
                return self.began_s + limits.handshake_timeout_ms / 1_000
            case Phase.READY:
                if self._blocked_since_s is not None:
                    return self._blocked_since_s + limits.slow_reader_timeout_ms / 1_000
                if self._is_held:
                    return None
                frame_s = self._partial_since_s
                return earliest(
                    [
                        self.heard_s + limits.idle_timeout_ms / 1_000,
                        None if frame_s is None else frame_s + limits.frame_timeout_ms / 1_000,
                    ]
                )
            case Phase.CLOSING:
                return self._closing_since_s + LINGER_S
            case Phase.CLOSED:
                return None

    def _secured(self, event: NodeSecured | ClientSecured, effects: list[Effect], now_s: float) -> None:  # noqa: ARG002 - the client's end needs the time
        if not isinstance(event, NodeSecured):
            raise LocalProtocolError("a node greets with a HELLO")
        self.hello = event.hello
        self._move(Phase.GREETING)
        effects.append(Send(codec.encode_frame(event.hello, 0)))

    def _link_frame(self, frame: codec.RawFrame, effects: list[Effect], now_s: float) -> None:
        match frame.type:
            case FrameType.START:
                self._start(frame, effects, now_s)
            case FrameType.PING:
                effects.append(pong(frame.request))
            case _:
                text = f"frame type {frame.type} is not known here"
                effects.append(Refuse(frame.request, Code.MALFORMED, text))

    def _start(self, frame: codec.RawFrame, effects: list[Effect], now_s: float) -> None:
        start = codec.decode_body(frame.type, frame.body)
        if not isinstance(start, codec.Start):
            raise LocalProtocolError("START decodes to another frame")
        if start.version != codec.PROTOCOL_VERSION or start.capabilities & ~NODE_CAPABILITIES:
            text = f"this node offers version {codec.PROTOCOL_VERSION} and capabilities {NODE_CAPABILITIES}"
            effects.append(Refuse(frame.request, Code.ILLEGAL_TRANSITION, text))
            self._close(effects, now_s, CloseReason.WRONG_VERSION)
            return
        self._move(Phase.READY)

    def _illegal_frame(self, frame: codec.RawFrame, error: RemoteProtocolError, effects: list[Effect]) -> bool:
        effects.append(Refuse(frame.request, error.code, str(error)))
        return True

    def _fault(self, error: RestanteError, effects: list[Effect], now_s: float) -> None:
        if self.phase is Phase.CONNECTING:
            self._abort(effects, CloseReason.HANDSHAKE_FAILED)
        elif self.phase in (Phase.GREETING, Phase.READY):
            effects.append(Refuse(0, error.code, str(error)))
            self._close(effects, now_s, CloseReason.PROTOCOL_ERROR)

    def _pass_deadline(self, effects: list[Effect], now_s: float) -> None:
        match self.phase:
            case Phase.CONNECTING | Phase.GREETING:
                self._abort(effects, CloseReason.HANDSHAKE_TIMEOUT)
            case Phase.READY if self._blocked_since_s is not None:
                self._abort(effects, CloseReason.SLOW_READER)
            case Phase.READY if now_s >= self.heard_s + self._limits.idle_timeout_ms / 1_000:
                self._abort(effects, CloseReason.IDLE_TIMEOUT)
            case Phase.READY:
                self._abort(effects, CloseReason.FRAME_TIMEOUT)
            case _:
                self._abort(effects)
