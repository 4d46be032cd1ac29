"""One connection of a node: executes the effects of `core.link.node_end` on a TLS connection.

Decides nothing about frames. The link machine says what each event leads to, and the registered families handle their
frames.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from restante.core.link.messages import (
    CLOSE_REQUESTED,
    READING_PAUSED,
    READING_RESUMED,
    Abort,
    Close,
    CloseReason,
    Dispatch,
    Effect,
    Faulted,
    NodeSecured,
    OpenWindow,
    Refuse,
    ReportFault,
    Send,
    StartReading,
    StopReading,
    WakeAt,
)
from restante.core.link.node_end import NODE_CAPABILITIES, NodeLink
from restante.crypto.identity import Identity
from restante.model.errors import LocalProtocolError
from restante.model.ids import NodeKey
from restante.model.sources import UNKNOWN_SOURCE, Source, source_of
from restante.node.connection_table import ConnectionTable
from restante.node.frame_family import FamilyConnection, FrameFamily
from restante.node.stats import RelayCounters, RelayEvent
from restante.policy.connection_limits import RelayLimits
from restante.policy.quota import Refusal
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.runtime.transport.link_connection import LinkConnection
from restante.wire.frames import codec
from restante.wire.frames.greeting import CHALLENGE_BYTES
from restante.wire.frames.mailbox import MAX_REFUSAL_TEXT_BYTES

_REPORTS: Final = {
    CloseReason.HANDSHAKE_FAILED: RelayEvent.HANDSHAKE_FAILED,
    CloseReason.HANDSHAKE_TIMEOUT: RelayEvent.HANDSHAKE_FAILED,
    CloseReason.PROTOCOL_ERROR: RelayEvent.PROTOCOL_ERROR,
    CloseReason.WRONG_VERSION: RelayEvent.PROTOCOL_ERROR,
    CloseReason.FRAME_TIMEOUT: RelayEvent.FRAME_TIMEOUT,
    CloseReason.IDLE_TIMEOUT: RelayEvent.IDLE_TIMEOUT,
    CloseReason.SLOW_READER: RelayEvent.SLOW_READER,
}


@dataclass(slots=True, kw_only=True)
class ConnectionContext:
    """What all connections of a node share. `families` are registered before the node listens."""

    identity: Identity
    tls: ssl.SSLContext
    limits: RelayLimits
    clock: Clock
    entropy: Entropy
    table: ConnectionTable
    counters: RelayCounters
    families: list[FrameFamily] = field(default_factory=list)
    family_of: dict[int, int] = field(default_factory=dict)

    def register(self, family: FrameFamily) -> None:
        """Let `family` handle its frame types on every connection made from now on."""
        taken = family.frame_types & self.family_of.keys()
        if taken:
            raise LocalProtocolError(f"another family handles the frame types {sorted(taken)}")
        self.family_of |= dict.fromkeys(family.frame_types, len(self.families))
        self.families.append(family)


class ClientConnection(LinkConnection):
    """Satisfies `node.frame_family.Peer` and `node.connection_table.OpenConnection`."""

    def __init__(self, context: ConnectionContext) -> None:
        super().__init__(context.tls, server_side=True)
        self._context = context
        self._link = NodeLink(context.family_of, context.limits, now_s=self._loop.time())
        self._handlers: list[FamilyConnection] = []
        self.source: Source = UNKNOWN_SOURCE
        self.remote: tuple[str, int] = ("0.0.0.0", 1)  # noqa: S104 - no address yet; nothing listens here
        self.node_key: NodeKey | None = None

    @property
    def is_open(self) -> bool:
        return self.transport is not None

    @property
    def hello(self) -> codec.Hello:
        if self._link.hello is None:
            raise LocalProtocolError("this connection has not been greeted yet")
        return self._link.hello

    def refuse(self, request: int, refusal: Refusal, *, retry_after_ms: int = 0) -> None:
        self._context.counters.report(RelayEvent.REFUSED, refusal.code)
        text = "".join(filter(str.isprintable, refusal.text)).encode()[:MAX_REFUSAL_TEXT_BYTES].decode(errors="ignore")
        refused = codec.Refused(
            permanent=refusal.permanent, code=refusal.code, retry_after_ms=retry_after_ms, text=text
        )
        self.send(codec.encode_frame(refused, request))

    def pause_reading(self) -> None:
        self._feed(READING_PAUSED)

    def resume_reading(self) -> None:
        self._feed(READING_RESUMED)

    def close(self) -> None:
        self._feed(CLOSE_REQUESTED)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            return
        peer = transport.get_extra_info("peername")
        if peer:
            self.source, self.remote = source_of(peer[0]), (peer[0], peer[1])
        if not self._context.table.admit(self):
            transport.abort()
            return
        transport.set_write_buffer_limits(high=self._context.limits.max_send_buffer_bytes)
        self._handlers = [family.connect(self) for family in self._context.families]
        super().connection_made(transport)

    def on_secured(self) -> None:
        hello = codec.Hello(
            lowest_version=codec.PROTOCOL_VERSION,
            highest_version=codec.PROTOCOL_VERSION,
            capabilities=NODE_CAPABILITIES,
            challenge=self._context.entropy.draw(CHALLENGE_BYTES),
            node_key=self._context.identity.node_key,
            now_ms=self._context.clock.now_ms(),
        )
        self._feed(NodeSecured(hello))

    def on_frames(self, frames: list[codec.RawFrame], *, partial_bytes: int) -> None:
        if partial_bytes or self.held_partial_bytes:
            self._context.table.hold_partial(self, partial_bytes, is_new_frame=bool(frames))
        self.held_partial_bytes = partial_bytes
        super().on_frames(frames, partial_bytes=partial_bytes)

    def on_lost(self) -> None:
        super().on_lost()
        self._context.table.remove(self)
        handlers, self._handlers = self._handlers, []
        for handler in handlers:
            handler.lost()

    def _execute(self, effects: Sequence[Effect], now_s: float) -> None:
        for effect in effects:
            match effect:
                case Dispatch():
                    self._handlers[effect.family].handle(effect.frames, now_s=now_s)
                case Send():
                    self.send(effect.raw)
                case Refuse():
                    self.refuse(effect.request, Refusal(permanent=True, code=effect.code, text=effect.text))
                case WakeAt():
                    self._order_wake(effect.at_s)
                case OpenWindow():
                    for handler in self._handlers:
                        handler.window_opened()
                case StopReading() | StartReading():
                    self._switch_reading(on=isinstance(effect, StartReading))
                case ReportFault():
                    self._feed(Faulted(effect.error))
                case Close() | Abort():
                    self._end(effect)
                case _:
                    raise LocalProtocolError(f"a node has no use for {type(effect).__name__}")

    def _switch_reading(self, *, on: bool) -> None:
        if self.transport is not None and not self.transport.is_closing():
            (self.transport.resume_reading if on else self.transport.pause_reading)()

    def _end(self, effect: Close | Abort) -> None:
        if effect.reason is not None:
            self._context.counters.report(_REPORTS[effect.reason])
        if isinstance(effect, Abort):
            self.abort()
        else:
            self.close_gracefully()
