"""One connection of a relay: anyone may put; only a proven owner receives, each blob once, in order (SPEC 6.4, 6.5).

Decides what each frame of a client leads to. What is committed when, is the intake's business; who else is connected,
the relay's.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from restante.core.mailbox import judge_puts
from restante.crypto.identity import is_signed_by
from restante.model.error_codes import Code
from restante.model.errors import RestanteError, StoreUnusable
from restante.model.ids import InboxKey
from restante.node.stats import RelayEvent
from restante.policy.connection_limits import PushMeter
from restante.policy.quota import Refusal
from restante.runtime.transport.tls import channel_of
from restante.runtime.transport.tls_connection import TlsConnection
from restante.wire.frames import codec
from restante.wire.frames.greeting import CHALLENGE_BYTES
from restante.wire.frames.mailbox import MAX_REFUSAL_TEXT_BYTES
from restante.wire.inbox_keys import relay_inbox_key

if TYPE_CHECKING:
    from restante.node.relay import Relay

PAGE_BLOBS: Final = 256
PAGE_BYTES: Final = 524_288
WINDOW_BLOBS: Final = 1_024
"""Blobs, and below their bytes, that may be on their way to a client which has not said that it took them."""

WINDOW_BYTES: Final = 4 * PAGE_BYTES
MAX_WAITING_BYTES: Final = 4_194_304  # of one session's puts: beyond it, the session is not read for a while

_PUT: Final = codec.FrameType.PUT
_CAPABILITIES: Final = int(codec.Capability.RECEIVE)


class ClientConnection(TlsConnection):
    """`came_s`, `heard_s`, `blocked_since_s` and `is_started` tell the relay's rounds whether a deadline has passed."""

    def __init__(self, relay: "Relay") -> None:
        super().__init__(relay.context, server_side=True)
        self._relay = relay
        self._loop = asyncio.get_running_loop()
        self._hello: codec.Hello | None = None
        self._inbox: InboxKey | None = None
        self._meter = PushMeter(
            rate_per_s=relay.limits.put_rate_per_s, burst=relay.limits.put_burst, now_s=self._loop.time()
        )
        self._pushed_through = 0
        self._on_their_way: deque[tuple[int, int, int]] = deque()
        self._on_their_way_blobs = 0
        self._on_their_way_bytes = 0
        self._pushing = False
        self.is_started = False
        self.is_held = False
        self.waiting_bytes = 0
        self.came_s = self.heard_s = self._loop.time()
        self.blocked_since_s: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.transport is not None:
            self.transport.set_write_buffer_limits(high=self._relay.limits.max_send_buffer_bytes)
            self._relay.register(self)

    def on_secured(self) -> None:
        self._hello = codec.Hello(
            lowest_version=codec.PROTOCOL_VERSION,
            highest_version=codec.PROTOCOL_VERSION,
            capabilities=_CAPABILITIES,
            challenge=self._relay.entropy.draw(CHALLENGE_BYTES),
            node_key=self._relay.identity.node_key,
        )
        self.send(codec.encode_frame(self._hello, 0))

    def on_frames(self, came: list[codec.RawFrame]) -> None:
        self.heard_s = self._loop.time()
        puts: list[codec.RawFrame] = []
        try:
            for frame in came:
                if frame.type == _PUT and self.is_started:
                    puts.append(frame)
                else:
                    self._take(frame.request, codec.decode_body(frame.type, frame.body))
        finally:  # what came before a frame that breaks the format is taken all the same
            if puts:
                self._put(puts)
        if self.waiting_bytes > MAX_WAITING_BYTES or self._relay.is_behind():
            self.pause_reading()

    def on_fault(self, error: RestanteError) -> None:
        self._relay.misbehaved(self)
        if self.is_secure:
            self.refuse(0, Refusal(permanent=True, code=error.code, text=str(error)))
        self.disconnect()

    def on_lost(self) -> None:
        self._relay.unregister(self, self._inbox)

    def pause_writing(self) -> None:
        """The client does not read: it gets nothing more, and is not listened to either, until it does."""
        self.blocked_since_s = self._loop.time()
        self.pause_reading()

    def resume_writing(self) -> None:
        self.blocked_since_s = None
        self.resume_reading_if_clear()
        self.push()

    def pause_reading(self) -> None:
        """Read no more for now."""
        if not self.is_held and self.transport is not None:
            self.is_held = True
            self.transport.pause_reading()

    def resume_reading_if_clear(self) -> None:
        """Read again, if nothing speaks against it any more."""
        if (
            self.is_held
            and self.transport is not None
            and self.blocked_since_s is None
            and self.waiting_bytes <= MAX_WAITING_BYTES // 2
            and not self._relay.is_behind()
        ):
            self.is_held = False
            self.heard_s = self._loop.time()  # its silence was our doing
            self.transport.resume_reading()

    def push(self) -> None:
        """Send what the session has not been sent yet, a page a turn, as far as its window allows."""
        if not self._pushing and self._inbox is not None:
            self._pushing = True
            self._loop.call_soon(self._push_page, self._inbox)

    def refuse(self, request: int, refused: Refusal, *, retry_after_ms: int = 0) -> None:
        self._relay.refused(refused.code)
        text = "".join(filter(str.isprintable, refused.text)).encode()[:MAX_REFUSAL_TEXT_BYTES].decode(errors="ignore")
        self.send(
            codec.encode_frame(
                codec.Refused(permanent=refused.permanent, code=refused.code, retry_after_ms=retry_after_ms, text=text),
                request,
            )
        )

    def _put(self, puts: list[codec.RawFrame]) -> None:
        """Those of one turn together: what is the same for all of them is done once."""
        allowed = self._meter.take(len(puts), self.heard_s)
        if allowed < len(puts):
            pause_ms = self._meter.wait_ms(self.heard_s)
            for put in puts[allowed:]:
                self._refuse_haste(put.request, pause_ms)
            puts = puts[:allowed]
        bodies = [put.body for put in puts]
        keeps, refusals = judge_puts(bodies, quota=self._relay.quota, now_ms=self._relay.clock.now_ms())
        for place, refused in refusals.items():
            self.refuse(puts[place].request, refused)
        if keeps:
            requests = [put.request for place, put in enumerate(puts) if place not in refusals]
            self._relay.intake.put(self, requests, keeps)

    def _refuse_haste(self, request: int, pause_ms: int) -> None:
        slower = Refusal(permanent=False, code=Code.RATE_LIMITED, text="more than this connection may send")
        self.refuse(request, slower, retry_after_ms=pause_ms)

    def _take(self, request: int, frame: codec.Frame | codec.Unknown) -> None:
        match frame:
            case codec.Start() if not self.is_started:
                self._start(request, frame)
            case codec.Ping():
                self.send(codec.encode_frame(codec.Pong(), request))
            case codec.Subscribe() if self.is_started and self._inbox is None:
                self._open(request, frame)
            case codec.Credit() if self._inbox is not None:
                self._taken(frame.through)
            case codec.Delete() if self._inbox is not None:
                self._relay.intake.delete(self, request, self._inbox, frame.blob_ids)
                self._taken(max(frame.blob_ids))
            case codec.Unknown():
                text = f"{frame.number} is no type of frame that is known here"
                self.refuse(request, Refusal(permanent=True, code=Code.MALFORMED, text=text))
            case _:
                text = "not now, not from you"
                self.refuse(request, Refusal(permanent=True, code=Code.ILLEGAL_TRANSITION, text=text))

    def _start(self, request: int, frame: codec.Start) -> None:
        if frame.version != codec.PROTOCOL_VERSION or frame.capabilities & ~_CAPABILITIES:
            text = f"spoken here: version {codec.PROTOCOL_VERSION}, capabilities {_CAPABILITIES}"
            self.refuse(request, Refusal(permanent=True, code=Code.ILLEGAL_TRANSITION, text=text))
            self.disconnect()
            return
        self.is_started = True

    def _open(self, request: int, frame: codec.Subscribe) -> None:
        if pause_ms := self._meter.wait_ms(self.heard_s):  # a proof costs more to check than a put
            self._refuse_haste(request, pause_ms)
            return
        if self._hello is None or not is_signed_by(
            frame.address,
            frame.signature,
            codec.open_to_sign(self._hello, channel_of(self.encryption), frame.address),
        ):
            text = "the address was not proven"
            self.refuse(request, Refusal(permanent=True, code=Code.AUTHENTICATION_FAILED, text=text))
            return
        inbox = relay_inbox_key(frame.address)
        if not self._relay.subscribe(inbox, self):
            text = f"at most {self._relay.limits.max_subscriptions_per_mailbox} connections receive for one address"
            refused = Refusal(permanent=False, code=Code.RATE_LIMITED, text=text)
            self.refuse(request, refused, retry_after_ms=self._relay.limits.idle_timeout_ms)
            return
        self._inbox = inbox
        self.send(codec.encode_frame(codec.Subscribed(), request))
        self.push()

    def _push_page(self, inbox: InboxKey) -> None:
        self._pushing = False
        if (
            self.transport is None
            or self.blocked_since_s is not None
            or self._on_their_way_blobs >= WINDOW_BLOBS
            or self._on_their_way_bytes >= WINDOW_BYTES
        ):
            return
        try:
            blobs = self._relay.store.flush(
                inbox,
                after=self._pushed_through,
                limit=PAGE_BLOBS,
                max_bytes=PAGE_BYTES,
                now_ms=self._relay.clock.now_ms(),
            )
        except StoreUnusable as error:
            self._relay.tell(RelayEvent.STORE_FAILED, error.code)
            self.abort()  # the next session begins where this one cannot go on
            return
        if not blobs:
            return
        raw = codec.encode_blobs(blobs)
        self._pushed_through = blobs[-1].blob_id
        self._on_their_way.append((self._pushed_through, len(blobs), len(raw)))
        self._on_their_way_blobs += len(blobs)
        self._on_their_way_bytes += len(raw)
        self._relay.tally.blobs_served += len(blobs)
        self._relay.tally.bytes_served += len(raw)
        self.send(raw)
        self.push()

    def _taken(self, through: int) -> None:
        pages = self._on_their_way
        while pages and pages[0][0] <= through:
            _, blobs, size_bytes = pages.popleft()
            self._on_their_way_blobs -= blobs
            self._on_their_way_bytes -= size_bytes
        self.push()
