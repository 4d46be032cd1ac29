"""A relay without sockets: connections to a store in the same process, for simulations of whole clients.

It applies the same rules as a node. It loses nothing: wrap a connection in `LossyConnection` for that, or disconnect.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from restante.core.inboxes.relay_inbox import OwnInbox, relay_inbox_key
from restante.core.mailbox import check_put
from restante.core.mesh_proofs.receipts import sign_receipts_of_commit
from restante.crypto.identity import Identity
from restante.model.errors import LocalProtocolError, RestanteError
from restante.model.ids import InboxKey
from restante.policy.failures import failure_of_refusal
from restante.policy.quota import MailboxQuota, Refusal
from restante.ports.clock import Clock
from restante.ports.mailbox_store import MailboxStore
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, StoredBlob
from restante.wire.storage_receipts import StorageReceipt

PAGE: Final = 16
PAGE_BYTES: Final = 1_000_000


class MemoryRelay:
    """What all connections of one relay share. `travel_s` is the delay of a message in each direction."""

    def __init__(
        self, identity: Identity, store: MailboxStore, *, quota: MailboxQuota, clock: Clock, travel_s: float = 0.0
    ) -> None:
        self.identity = identity
        self.store = store
        self.travel_s = travel_s
        self._quota = quota
        self._clock = clock
        self._links: dict[MemoryRelayConnection, None] = {}  # in the order they were made, so that a seed decides all

    def link(self, inbox: OwnInbox | None = None) -> "MemoryRelayConnection":
        """Open a connection; with an inbox it is subscribed, and blobs not deleted are pushed again (SPEC 6.4)."""
        link = MemoryRelayConnection(self, inbox)
        self._links[link] = None
        return link

    def disconnect_all(self) -> None:
        """Close every connection at once, with everything in progress on it."""
        for link in tuple(self._links):
            self.drop(link)

    def drop(self, link: "MemoryRelayConnection") -> None:
        self._links.pop(link, None)
        link.lose()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def take(self, raw: bytes) -> StorageReceipt:
        """Validate and store one put, then acknowledge it (SPEC 1.3)."""
        now_ms = self.now_ms()
        try:
            verdict = check_put(raw, quota=self._quota, now_ms=now_ms)
        except RestanteError as error:
            raise AttemptFailed(str(error), failure=failure_of_refusal(error.code, permanent=True)) from error
        if isinstance(verdict, Refusal):
            raise _as_failure(verdict)
        [stored] = self.store.put_all([verdict], quota=self._quota, now_ms=now_ms)
        if isinstance(stored, Refusal):
            raise _as_failure(stored)
        for link in self._links:
            link.look_again()
        [receipt] = sign_receipts_of_commit(self.identity, [verdict.leaf], now_ms=now_ms)
        return receipt


class MemoryRelayConnection:
    """Implements `RelayConnection`. Each blob is returned once, in order (SPEC 6.4)."""

    def __init__(self, relay: MemoryRelay, inbox: OwnInbox | None) -> None:
        self._relay = relay
        self._subscribed = None if inbox is None else _key_of(inbox, relay.identity)
        self._handed_through = 0
        self._news = asyncio.Event()
        self._lost = asyncio.Event()

    async def put(self, envelope: bytes) -> StorageReceipt:
        await self._travel()
        ack = self._relay.take(envelope)
        await self._travel()
        return ack

    async def next_blob(self) -> StoredBlob:
        while True:
            await self._travel()
            now_ms = self._relay.now_ms()
            blobs = self._relay.store.flush(
                self._inbox, after=self._handed_through, limit=1, max_bytes=1, now_ms=now_ms
            ).blobs
            if blobs:
                self._handed_through = blobs[0].blob_id
                return blobs[0]
            self._news.clear()
            await self._news.wait()

    async def next_blobs(self) -> list[StoredBlob]:
        first = await self.next_blob()
        more = self._relay.store.flush(
            self._inbox, after=first.blob_id, limit=PAGE, max_bytes=PAGE_BYTES, now_ms=self._relay.now_ms()
        ).blobs
        self._handed_through = more[-1].blob_id if more else first.blob_id
        return [first, *more]

    async def delete(self, blob_id: int) -> None:
        await self.delete_many([blob_id])

    async def delete_many(self, blob_ids: Sequence[int]) -> None:
        await self._travel()
        self._relay.store.delete_all(self._inbox, blob_ids, now_ms=self._relay.now_ms())
        await self._travel()

    async def lost(self) -> None:
        await self._lost.wait()

    async def close(self) -> None:
        self._relay.drop(self)

    def look_again(self) -> None:
        self._news.set()

    def lose(self) -> None:
        self._lost.set()
        self._news.set()

    @property
    def _inbox(self) -> InboxKey:
        if self._subscribed is None:
            raise LocalProtocolError("this connection puts; it is not subscribed")
        return self._subscribed

    async def _travel(self) -> None:
        """Wait for the delay. The connection may be closed afterwards."""
        await asyncio.sleep(self._relay.travel_s)
        if self._lost.is_set():
            raise ConnectionLost


def _key_of(inbox: OwnInbox, relay: Identity) -> InboxKey:
    return relay_inbox_key(inbox.owner.address, relay.node_key, inbox.access_secret)


def _as_failure(refused: Refusal) -> AttemptFailed:
    """Map a refusal to the failure that a sender sees: retriable or permanent (SPEC 6.7)."""
    return AttemptFailed(refused.text, failure=failure_of_refusal(refused.code, permanent=refused.permanent))
