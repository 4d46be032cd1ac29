"""A relay without sockets: links that end in a store of the same process, for simulations of whole clients.

Takes and hands out mail by the same rules as a node. Loses nothing by itself: wrap a link in `LossyLink` for that, or
hang up.
"""

import asyncio

from restante.core.acks import delivery_ack
from restante.core.mailbox import judge_put
from restante.crypto.identity import Identity
from restante.model.codes import Code
from restante.model.errors import RestanteError
from restante.policy.failures import Failure
from restante.policy.quota import Refused, StorageQuota
from restante.ports.clock import Clock
from restante.ports.relay import Blob, LinkLost, MailboxStore, TryFailed
from restante.wire.acks import Ack
from restante.wire.envelope import Envelope, decode_envelope
from restante.wire.inbox_keys import relay_inbox_key


class MemoryRelay:
    """What all links of one relay share. `travel_s` is how long anything is on its way, there or back."""

    def __init__(
        self, identity: Identity, store: MailboxStore, *, quota: StorageQuota, clock: Clock, travel_s: float = 0.0
    ) -> None:
        self.identity = identity
        self.store = store
        self.travel_s = travel_s
        self._quota = quota
        self._clock = clock
        self._links: set[MemoryLink] = set()

    def link(self, owner: Identity) -> "MemoryLink":
        """A new receive session for `owner`: what was not deleted before comes again (SPEC 6.4)."""
        link = MemoryLink(self, owner)
        self._links.add(link)
        return link

    def hang_up(self) -> None:
        """Every link is gone at once, with whatever was under way on it."""
        for link in tuple(self._links):
            self.drop(link)

    def drop(self, link: "MemoryLink") -> None:
        self._links.discard(link)
        link.lose()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def take(self, raw: bytes) -> Ack:
        """Judge and store one Put; only then is it acknowledged (SPEC 1.3)."""
        envelope = _understood(raw)
        now_ms = self.now_ms()
        usage = self.store.usage(envelope.inbox_key)
        verdict = judge_put(envelope, usage=usage, quota=self._quota, now_ms=now_ms)
        if isinstance(verdict, Refused):
            raise TryFailed(verdict.text, failure=_failure_for(verdict))
        self.store.put(verdict, raw, now_ms=now_ms)
        for link in self._links:
            link.look_again()
        return delivery_ack(self.identity, verdict.payload_hash, now_ms=now_ms)


class MemoryLink:
    """Satisfies `ports.relay.RelayLink`. Each blob is handed out once, in order (SPEC 6.4)."""

    def __init__(self, relay: MemoryRelay, owner: Identity) -> None:
        self._relay = relay
        self._inbox = relay_inbox_key(owner.address)
        self._handed_through = 0
        self._news = asyncio.Event()
        self._lost = False

    async def put(self, envelope: bytes) -> Ack:
        await self._travel()
        ack = self._relay.take(envelope)
        await self._travel()
        return ack

    async def next_blob(self) -> Blob:
        while True:
            await self._travel()
            now_ms = self._relay.now_ms()
            blobs = self._relay.store.flush(self._inbox, after=self._handed_through, limit=1, now_ms=now_ms)
            if blobs:
                self._handed_through = blobs[0].blob_id
                return blobs[0]
            self._news.clear()
            await self._news.wait()

    async def delete(self, blob_id: int) -> None:
        await self._travel()
        self._relay.store.delete(self._inbox, blob_id, now_ms=self._relay.now_ms())
        await self._travel()

    async def close(self) -> None:
        self._relay.drop(self)

    def look_again(self) -> None:
        self._news.set()

    def lose(self) -> None:
        self._lost = True
        self._news.set()

    async def _travel(self) -> None:
        """Others get their turn meanwhile, and the link may be gone afterwards."""
        await asyncio.sleep(self._relay.travel_s)
        if self._lost:
            raise LinkLost


def _understood(raw: bytes) -> Envelope:
    try:
        return decode_envelope(raw)
    except RestanteError as error:
        failure = Failure.TOO_LARGE if error.code is Code.MESSAGE_TOO_LARGE else Failure.INVALID_FORMAT
        raise TryFailed(str(error), failure=failure) from error


def _failure_for(refused: Refused) -> Failure:
    """How a sender sees the refusal: worth another try, or not (SPEC 6.7)."""
    if not refused.permanent:
        return Failure.STORAGE_REFUSED
    return Failure.TOO_LARGE if refused.code is Code.MESSAGE_TOO_LARGE else Failure.INVALID_FORMAT
