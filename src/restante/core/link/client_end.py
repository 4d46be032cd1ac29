"""The client's end of a link: checks who answers, greets back, numbers requests and sends heartbeats (SPEC 6.8).

A client believes nothing that a node says out of turn: any frame that is not allowed ends the connection.
"""

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from restante.core.link.machine import LINGER_S, Link, earliest, pong
from restante.core.link.messages import (
    Answer,
    BecomeReady,
    ClientSecured,
    CloseReason,
    Effect,
    ExpireRequests,
    NodeSecured,
    ReportFault,
    Send,
)
from restante.core.link.requests import RequestTable
from restante.core.link.table import CLIENT_TABLE, Input, Phase
from restante.model.errors import LocalProtocolError, RemoteProtocolError, RestanteError
from restante.model.ids import NodeKey
from restante.policy.connection_limits import RelayLimits
from restante.wire.frames import codec

ANSWER_TIMEOUT_S: Final = 10.0  # SPEC 6.8: the limit of the handshake, used for every answer
CLIENT_CAPABILITIES: Final = int(codec.Capability.RECEIVE)

Waiting = TypeVar("Waiting")


class ClientLink(Link, Generic[Waiting]):
    """Made when the TCP connection is opened to the node whose key is `node`."""

    def __init__(self, families: Mapping[int, int], node: NodeKey, limits: RelayLimits, *, now_s: float) -> None:
        super().__init__(CLIENT_TABLE, families, now_s=now_s)
        self._node = node
        self._limits = limits
        self._next_heartbeat_s = now_s
        self.requests: RequestTable[Waiting] = RequestTable(timeout_s=ANSWER_TIMEOUT_S)

    def open_request(self, waiting: Waiting, *, now_s: float) -> tuple[int, list[Effect]]:
        """Return the number of a new request, and the timer it may need."""
        self._check(Input.REQUEST_OPENED)
        number = self.requests.open(waiting, now_s=now_s)
        effects: list[Effect] = []
        if len(self.requests) == 1:  # the timer of an older one orders the next
            self._order_timer(effects)
        return number, effects

    def due_s(self) -> float | None:
        match self.phase:
            case Phase.CONNECTING | Phase.GREETING:
                return self.began_s + ANSWER_TIMEOUT_S
            case Phase.READY:
                return earliest([self._next_heartbeat_s, self.requests.next_due_s])
            case Phase.CLOSING:
                return self._closing_since_s + LINGER_S
            case Phase.CLOSED:
                return None

    def _secured(self, event: NodeSecured | ClientSecured, effects: list[Effect], now_s: float) -> None:  # noqa: ARG002 - the node's end needs the time
        if not isinstance(event, ClientSecured):
            raise LocalProtocolError("a client does not greet first")
        if event.peer_key != self._node:
            self._abort(effects, CloseReason.WRONG_NODE)
            return
        self._move(Phase.GREETING)

    def _link_frame(self, frame: codec.RawFrame, effects: list[Effect], now_s: float) -> None:
        decoded = codec.decode_body(frame.type, frame.body)
        match decoded:
            case codec.Hello():
                self._greet(decoded, effects, now_s)
            case codec.Ping():
                effects.append(pong(frame.request))
            case codec.Pong() | codec.Refused():
                waiting = self.requests.close(frame.request)
                if waiting is not None:  # else a PONG to a heartbeat, or an answer to a request that has expired
                    effects.append(Answer(waiting, decoded))
            case _:
                raise LocalProtocolError(f"frame type {frame.type} belongs to no family")

    def _greet(self, hello: codec.Hello, effects: list[Effect], now_s: float) -> None:
        if not hello.lowest_version <= codec.PROTOCOL_VERSION <= hello.highest_version:
            self._abort(effects, CloseReason.WRONG_VERSION)
            return
        if hello.node_key != self._node:
            self._abort(effects, CloseReason.WRONG_NODE)
            return
        self.hello = hello
        self._move(Phase.READY)
        start = codec.Start(version=codec.PROTOCOL_VERSION, capabilities=hello.capabilities & CLIENT_CAPABILITIES)
        effects.append(Send(codec.encode_frame(start, 0)))
        effects.append(BecomeReady(hello))
        self._beat(effects, now_s)

    def _beat(self, effects: list[Effect], now_s: float) -> None:
        """Tell the node that this end is alive, and schedule the next heartbeat."""
        effects.append(Send(codec.encode_frame(codec.Ping(), 0)))
        self._next_heartbeat_s = now_s + self._limits.heartbeat_interval_ms / 1_000

    def _order_reading(self, effects: list[Effect], now_s: float) -> None:
        """A client always reads: the answers are what frees its send buffer."""

    def _illegal_frame(self, frame: codec.RawFrame, error: RemoteProtocolError, effects: list[Effect]) -> bool:  # noqa: ARG002 - the node's end answers it
        effects.append(ReportFault(error))
        return False

    def _fault(self, error: RestanteError, effects: list[Effect], now_s: float) -> None:  # noqa: ARG002 - the node's end answers it
        if self.phase is not Phase.CLOSING:
            was_secured = self.phase is not Phase.CONNECTING
            self._abort(effects, CloseReason.PROTOCOL_ERROR if was_secured else CloseReason.HANDSHAKE_FAILED)

    def _pass_deadline(self, effects: list[Effect], now_s: float) -> None:
        if self.phase in (Phase.CONNECTING, Phase.GREETING):
            self._abort(effects, CloseReason.HANDSHAKE_TIMEOUT)
            return
        if self.phase is not Phase.READY:
            self._abort(effects)
            return
        if late := self.requests.expire(now_s):
            effects.append(ExpireRequests(late))
        if now_s >= self._next_heartbeat_s:
            if now_s - self.heard_s > self._limits.idle_timeout_ms / 1_000:
                self._abort(effects, CloseReason.IDLE_TIMEOUT)
            else:
                self._beat(effects, now_s)
