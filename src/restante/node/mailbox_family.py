"""The mailbox family of a node: any client may put; a proven owner subscribes and gets each blob once (SPEC 6.4, 6.5).

Decides what each frame of the family leads to. The write batcher decides what is committed when.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from restante.core.link.windows import SendWindow
from restante.core.mailbox import check_puts
from restante.crypto.identity import is_signed_by
from restante.model.error_codes import Code
from restante.model.errors import StoreUnusable
from restante.model.ids import InboxKey
from restante.node.frame_family import Peer
from restante.node.stats import RelayCounters, RelayEvent
from restante.node.write_batcher import WriteBatcher
from restante.policy.connection_limits import PutMeter
from restante.policy.quota import Refusal
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.mailbox_store import DamagedBlob, MailboxStore
from restante.wire.frames import codec
from restante.wire.frames.types import FrameType
from restante.wire.mesh_keys import blinded_relay_inbox_key

PAGE_BLOBS: Final = 256
PAGE_BYTES: Final = 524_288

_PUT: Final = FrameType.PUT
_ONLY_PUTS: Final = {int(_PUT)}


class MailboxFamily:
    """Satisfies `node.frame_family.FrameFamily`."""

    frame_types = frozenset({int(each) for each in (FrameType.SUBSCRIBE, _PUT, FrameType.DELETE, FrameType.CREDIT)})

    def __init__(
        self,
        store: MailboxStore,
        batcher: WriteBatcher,
        *,
        settings: Settings,
        clock: Clock,
        counters: RelayCounters,
    ) -> None:
        self.store = store
        self.batcher = batcher
        self.quota = settings.mailbox
        self.limits = settings.relay
        self.clock = clock
        self.counters = counters
        self._subscribed: defaultdict[InboxKey, set[MailboxConnection]] = defaultdict(set)
        batcher.on_stored(self._push_to_subscribers)

    @property
    def subscriptions(self) -> int:
        return sum(map(len, self._subscribed.values()))

    def connect(self, peer: Peer) -> "MailboxConnection":
        return MailboxConnection(self, peer)

    def subscribe(self, inbox: InboxKey, connection: "MailboxConnection") -> bool:
        """Add a subscription, unless the mailbox has as many as it may have."""
        if len(self._subscribed.get(inbox, ())) >= self.limits.max_subscriptions_per_mailbox:
            return False
        self._subscribed[inbox].add(connection)
        self.counters.report(RelayEvent.SUBSCRIBED)
        return True

    def unsubscribe(self, inbox: InboxKey, connection: "MailboxConnection") -> None:
        self._subscribed[inbox].discard(connection)
        if not self._subscribed[inbox]:
            del self._subscribed[inbox]

    def report_damaged(self, damaged: Sequence[DamagedBlob]) -> None:
        """Count blobs that rotted on disk and journal them; the others are served (SPEC 6.3)."""
        self.counters.blobs_damaged += len(damaged)
        self.counters.report(RelayEvent.BLOB_DAMAGED)
        self.batcher.run(lambda: self.store.journal_damaged(damaged, now_ms=self.clock.now_ms()))

    def _push_to_subscribers(self, inboxes: AbstractSet[InboxKey]) -> None:
        for inbox in self._subscribed.keys() & inboxes if self._subscribed else ():
            for connection in self._subscribed[inbox]:
                connection.push_stored()


class MailboxConnection:
    """The mailbox family on one connection. Satisfies `node.frame_family.FamilyConnection`."""

    def __init__(self, family: MailboxFamily, peer: Peer) -> None:
        self._family = family
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._inbox: InboxKey | None = None
        self._window = SendWindow()
        self._is_pushing = False
        rate_per_s = family.limits.put_rate_per_s
        self._meter = PutMeter(rate_per_s=rate_per_s, now_s=self._loop.time()) if rate_per_s else None

    def handle(self, frames: Sequence[codec.RawFrame], *, now_s: float) -> None:
        if {frame[0] for frame in frames} == _ONLY_PUTS:  # the usual case
            self._put(frames, now_s)
            return
        puts: list[codec.RawFrame] = []
        try:
            for frame in frames:
                if frame.type == _PUT:
                    puts.append(frame)
                else:
                    self._handle_other(frame)
        finally:  # puts that came before a frame with a broken body are stored
            if puts:
                self._put(puts, now_s)

    def window_opened(self) -> None:
        self.push()

    def lost(self) -> None:
        if self._inbox is not None:
            self._family.unsubscribe(self._inbox, self)

    def push_stored(self) -> None:
        """Send the first page of what was just stored at once, unless a push waits for its turn already."""
        if not self._is_pushing and self._inbox is not None:
            self._push_page(self._inbox)

    def push(self) -> None:
        """Send blobs that this subscription has not been sent, a page a turn of the loop, within the window."""
        if not self._is_pushing and self._inbox is not None:
            self._is_pushing = True
            self._loop.call_soon(self._push_page, self._inbox)

    def _put(self, puts: Sequence[codec.RawFrame], now_s: float) -> None:
        """Store all puts of one read together."""
        if self._meter is not None:
            puts = self._within_rate(self._meter, puts, now_s)
        family = self._family
        bodies, now_ms = [put[2] for put in puts], family.clock.now_ms()
        keeps, refusals = check_puts(bodies, quota=family.quota, now_ms=now_ms, source=self._peer.source)
        for place, refusal in refusals.items():
            self._peer.refuse(puts[place].request, refusal)
        if keeps:
            requests = [put[1] for place, put in enumerate(puts) if place not in refusals]
            family.batcher.put(self._peer, requests, keeps)

    def _within_rate(self, meter: PutMeter, puts: Sequence[codec.RawFrame], now_s: float) -> Sequence[codec.RawFrame]:
        """Refuse what exceeds `relay.put_rate_per_s`, and return the rest."""
        allowed = meter.take(len(puts), now_s)
        text = f"this relay stores at most {self._family.limits.put_rate_per_s} puts per second for one connection"
        refusal = Refusal(permanent=False, code=Code.RATE_LIMITED, text=text)
        for put in puts[allowed:]:
            self._peer.refuse(put.request, refusal, retry_after_ms=meter.wait_ms())
        return puts[:allowed]

    def _handle_other(self, frame: codec.RawFrame) -> None:
        decoded = codec.decode_body(frame.type, frame.body)
        match decoded:
            case codec.Subscribe() if self._inbox is None:
                self._subscribe(frame.request, decoded)
            case codec.Credit() if self._inbox is not None:
                self._credit(decoded.through)
            case codec.Delete() if self._inbox is not None:
                self._family.batcher.delete(self._peer, frame.request, self._inbox, decoded.blob_ids)
                self._credit(max(decoded.blob_ids))
            case _:
                state = "is not subscribed" if self._inbox is None else "is subscribed already"
                text = f"frame not allowed in this state: the connection {state}"
                self._peer.refuse(frame.request, Refusal(permanent=True, code=Code.ILLEGAL_TRANSITION, text=text))

    def _subscribe(self, request: int, frame: codec.Subscribe) -> None:
        peer = self._peer
        if not is_signed_by(
            frame.blinded_key, frame.signature, codec.open_to_sign(peer.hello, peer.binding, frame.blinded_key)
        ):
            text = "the signature does not prove this inbox"
            peer.refuse(request, Refusal(permanent=True, code=Code.AUTHENTICATION_FAILED, text=text))
            peer.close()  # each guess costs a new connection: checking a signature is expensive
            return
        inbox = blinded_relay_inbox_key(frame.blinded_key, peer.hello.node_key)
        limits = self._family.limits
        if not self._family.subscribe(inbox, self):
            text = f"at most {limits.max_subscriptions_per_mailbox} connections may be subscribed to one mailbox"
            refusal = Refusal(permanent=False, code=Code.RATE_LIMITED, text=text)
            peer.refuse(request, refusal, retry_after_ms=limits.idle_timeout_ms)
            return
        self._inbox = inbox
        peer.send(codec.encode_frame(codec.Subscribed(), request))
        self.push()

    def _push_page(self, inbox: InboxKey) -> None:
        self._is_pushing = False
        peer, family = self._peer, self._family
        if not (peer.is_open and peer.can_write and self._window.is_open):
            return
        try:
            blobs, damaged, has_more = family.store.flush(
                inbox,
                after=self._window.sent_through,
                limit=PAGE_BLOBS,
                max_bytes=PAGE_BYTES,
                now_ms=family.clock.now_ms(),
            )
        except StoreUnusable as error:
            family.counters.report(RelayEvent.STORE_FAILED, error.code)
            peer.abort()  # the next subscription starts over, without a gap
            return
        if damaged:
            family.report_damaged(damaged)
        if not blobs:
            return
        raw = codec.encode_blobs(blobs)
        self._window.sent(through=blobs[-1].blob_id, blobs=len(blobs), size_bytes=len(raw))
        family.counters.blobs_served += len(blobs)
        family.counters.bytes_served += len(raw)
        peer.send(raw)
        if has_more:
            self.push()

    def _credit(self, through: int) -> None:
        """Push what waited for the window to open; nothing waits for credit while it is open."""
        was_open = self._window.is_open
        self._window.credit(through)
        if not was_open:
            self.push()
