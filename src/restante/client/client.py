"""One endpoint: sends, receives and acknowledges, encrypted end to end, from one directory on this machine.

    client = Client.open("alice", passphrase="correct horse")
    receipt = await client.send(bob, b"bonjour")
    async for message in client.inbox(): ...

Composition only: rules are in core and policy, storage in runtime/sqlite, what is written in client/outgoing, what
arrives in client/incoming. Outbox, inbox and sessions borrow one `ClientFile`, through which every change is committed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from restante.client.ack_sender import AckSender
from restante.client.contacts import Contact, ContactBook
from restante.client.event_stream import EventBroadcaster, EventStream
from restante.client.home import ClientDirectory
from restante.client.incoming import IncomingMessages, Unsealed
from restante.client.journal_shipping import ClientShipping
from restante.client.maintenance import Maintenance
from restante.client.outbox import Outbox
from restante.client.outgoing import OutgoingMessages
from restante.client.relay_carrier import Connect, RelayCarrier
from restante.client.relay_connector import Connector, connect_by_tls
from restante.client.security_events import SecurityNotes
from restante.core.inbox_events import InboxEventType
from restante.core.outbox_events import OutboxEventType
from restante.core.signed_bundles import sign_bundle
from restante.crypto.identity import Identity
from restante.crypto.storage_seal import StorageSeal
from restante.model.errors import OutboxFull
from restante.model.ids import MESSAGE_ID_BYTES, Address, mint_message_id
from restante.model.inbox_entry import InboxEntry
from restante.model.kinds import Kind
from restante.model.outbox_entry import OutboxEntry
from restante.model.send_receipt import Delivery, Dropped, Outcome, Queued, SendReceipt
from restante.model.states import Route
from restante.policy.eligibility import classify
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, RelayConnection, StoredBlob
from restante.runtime.endpoints import PinnedRelay
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.runtime.sqlite.inbox.results import InboxEvent
from restante.runtime.sqlite.inbox.store import SqliteInbox
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent
from restante.runtime.sqlite.session_store import SessionStore, SessionSummary, summaries
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.frames.mailbox import MAX_DELETED_AT_ONCE

BATCH: Final = 128  # arrivals that share a transaction at most
INBOX_PAGE: Final = 256
LOOK_AGAIN_S: Final = 1.0  # another process may have taken in what the application here waits for

ClientEvent = OutboxEvent | InboxEvent


class Client:
    """Everything one identity has on this machine. Several processes may have it open at once."""

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        contacts: ContactBook,
        relay: PinnedRelay,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        sends_read_acks: bool = False,
        ship_to: str | None = None,
    ) -> None:
        self.identity = identity
        self.contacts = contacts
        self.relay = relay
        self._clock = clock
        self._settings = settings
        self._entropy = entropy
        self.sends_read_acks = sends_read_acks
        self.file = ClientFile.open(path, entropy=entropy)
        database = self.file.database
        seal = StorageSeal(identity.storage_key)
        self.outbox = Outbox(self.file, settings=settings, clock=clock, entropy=entropy, reseal=self._reseal)
        self.journal = self.file.journal
        store = self.outbox.store
        self.received = SqliteInbox(
            database, self.journal, settings, seal=seal, entropy=entropy, tag_secret=identity.tag_secret
        )
        self._sessions = SessionStore(database, owner=identity.address, seal=seal, entropy=entropy)
        self._notes = SecurityNotes(database, self.journal, tag_secret=identity.tag_secret)
        self._writing = OutgoingMessages(
            identity,
            contacts=contacts,
            sessions=self._sessions,
            outbox=store,
            seal=seal,
            entropy=entropy,
            notes=self._notes,
            journal=self.journal,
        )
        acknowledging = AckSender(
            identity, contacts=contacts, writing=self._writing, inbox=self.received, batching=settings.acks
        )
        self._receiving = IncomingMessages(
            identity,
            contacts=contacts,
            sessions=self._sessions,
            writing=self._writing,
            acknowledging=acknowledging,
            outbox=store,
            notes=self._notes,
            limits=settings.order,
        )
        self._house = Maintenance(
            sessions=self._sessions,
            writing=self._writing,
            receiving=self._receiving,
            acknowledging=acknowledging,
            inbox=self.received,
            settings=settings,
            entropy=entropy,
        )
        self.shipping = ClientShipping(ship_to, self.file, settings=settings, clock=clock, entropy=entropy)
        self._announcer: EventBroadcaster[ClientEvent] = EventBroadcaster()
        self.outbox.on_event(self._pass_on)
        self.file.after_commit(self._tell)
        self._arrived = asyncio.Event()
        self._house_work = asyncio.Event()
        self._links: asyncio.Queue[RelayConnection] = asyncio.Queue()
        self.was_connected = False
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._stopped.set()

    @classmethod
    def open(
        cls,
        directory: Path | str,
        passphrase: str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        sends_read_acks: bool = False,
        ship_to: str | None = None,
    ) -> "Client":
        """The client of this directory, which `restante id new` or `ClientDirectory.create` made.

        With `ship_to`, an absolute path or an address, its journal leaves for there while it runs and when it ends.
        """
        home = ClientDirectory(Path(directory))
        return cls(
            home.database,
            home.identity(passphrase=passphrase),
            contacts=home.contact_book(),
            relay=home.relay(),
            settings=settings or Settings(),
            clock=clock or SystemClock(),
            entropy=entropy or SystemEntropy(),
            sends_read_acks=sends_read_acks,
            ship_to=ship_to,
        )

    async def send(self, to: Address, body: bytes, *, kind: str = Kind.TEXT, ttl_s: int | None = None) -> SendReceipt:
        """Accept one message for a contact; it is encrypted and on disk when this returns (SPEC 3.2, 3.7).

        Raises `TooLarge`, `OutOfRange`, `OutboxFull`, or `RestanteError` for somebody who is no contact or whose
        prekeys are too old; nothing was kept then.
        """
        contact = self._contact(to)
        # No live path: a relay stores, and refuses what would not outlive an hour there.
        decision = classify(kind, connected=False)
        message_id = mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES))
        outcome: Outcome = decision if isinstance(decision, Dropped) else Queued()
        if not isinstance(decision, Dropped):

            def accept() -> None:
                self._writing.write(
                    contact, body, kind=Kind(kind), ttl_s=ttl_s, message_id=message_id, now_ms=self._clock.now_ms()
                )

            await self.file.run(accept)
            self.outbox.wake()
        return SendReceipt(deliveries=(Delivery(destination=contact.lane, message_id=message_id, outcome=outcome),))

    async def inbox(self, *, follow: bool = True) -> AsyncIterator[InboxEntry]:
        """Messages nobody was shown yet, in order, then each new one as it comes; with `follow` False, no more.

        A message counts as read when the next one is asked for: an application that dies before is shown it again.
        """
        after = -1
        while not self._stopping.is_set():
            self._arrived.clear()
            page = await self.file.run(partial(self._unread, after))
            for place, entry in page:
                after = place
                yield entry
                await self.file.run(partial(self._mark_read, place))
            if page:
                continue
            if not follow:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await self._arrived.wait()

    def events(self) -> EventStream[ClientEvent]:
        """What happens to messages in both directions from now on: the outbox's changes and the inbox's."""
        return self._announcer.stream()

    async def run(self, connect: Connector = connect_by_tls) -> None:
        """Stay connected, send, take in and acknowledge until `close` or cancellation."""
        self._stopped.clear()
        self.shipping.start()
        try:
            async with RelayCarrier({}, schedule=self._settings.retry, entropy=self._entropy) as carrier:
                carrier.add(str(self.relay), self._connect(connect, self.relay, self.identity))
                self._add_lanes(carrier, connect)
                await self._work(carrier, connect)
        finally:
            self._stopped.set()

    async def close(self) -> None:
        """End `run` after one last drain of connected lanes (SPEC 3.10), ship the last facts, then close the file."""
        self._stopping.set()
        self._arrived.set()
        self._house_work.set()
        await self._stopped.wait()
        self._announcer.close()
        await self.shipping.finish()
        await self.outbox.close()
        self.file.close()

    async def receive(self, blobs: Sequence[StoredBlob]) -> None:
        """Arrivals, whatever they are; all on disk when this returns."""
        for start in range(0, len(blobs), BATCH):
            arrivals = self._receiving.unseal(blobs[start : start + BATCH])
            await self.file.run(partial(self._take_in, arrivals))
        self._house_work.set()
        self.outbox.wake()

    async def run_maintenance(self) -> int:
        """Do what time has made due (SPEC 8.1, 9.5, 9.7, 10.5); when there is something to do again."""
        next_ms = await self.file.run(lambda: self._house.work(now_ms=self._clock.now_ms()))
        with contextlib.suppress(OutboxFull):
            due_ms = await self.file.run(lambda: self._house.acknowledge(now_ms=self._clock.now_ms()))
            next_ms = min(next_ms, due_ms)
        self.outbox.wake()
        return next_ms

    async def bundle(self) -> bytes:
        """Our prekeys as others need them, signed; made first, or renewed, if that is due (SPEC 8.1)."""

        def make() -> bytes:
            now_ms = self._clock.now_ms()
            self._house.renew_prekeys(now_ms=now_ms)
            return sign_bundle(self._sessions.prekeys(), self.identity, now_ms=now_ms)

        return await self.file.run(make)

    async def as_contact(self) -> Contact:
        """What to hand to those who shall write to us."""
        return Contact(card=self.identity.card, bundle=await self.bundle(), relay=self.relay)

    async def sessions(self) -> list[SessionSummary]:
        return await self.file.run(partial(summaries, self.file.database))

    async def has_unread(self) -> bool:
        """Whether something arrived that nobody was shown yet."""
        return await self.file.run(self.received.first_unread) is not None

    async def has_acknowledged(self) -> bool:
        """Whether no acknowledgement is owed, and none waits to be sent."""

        def waiting() -> bool:
            return bool(self.received.owed(self._settings.acks)) or any(
                entry.kind is Kind.CONTROL for entry in self.outbox.store.entries(limit=INBOX_PAGE)
            )

        return not await self.file.run(waiting)

    async def is_settled(self) -> bool:
        """Whether nothing is in flight and no acknowledgement is owed."""
        counts = await self.outbox.counts()
        owed = await self.file.run(lambda: self.received.owed(self._settings.acks))
        return not counts and not owed

    def _take_in(self, arrivals: Sequence[Unsealed]) -> None:
        now_ms = self._clock.now_ms()
        with self.received.batch(now_ms=now_ms) as batch:
            self._receiving.receive(arrivals, batch, now_ms=now_ms)

    def _contact(self, who: Address) -> Contact:
        if self.contacts.get(who) is None:
            self.contacts.refresh()
        return self.contacts.expect(who)

    def _unread(self, after: int) -> list[tuple[int, InboxEntry]]:
        first = self.received.first_unread()
        if first is None:
            return []
        page = self.received.released(after=max(after, first - 1), limit=INBOX_PAGE, now_ms=self._clock.now_ms())
        return [(place, entry) for place, entry in page if entry.first_read_at_ms is None]

    def _mark_read(self, place: int) -> None:
        self.received.mark_read(place, now_ms=self._clock.now_ms(), acknowledge=self.sends_read_acks)
        if self.sends_read_acks:
            self._house_work.set()

    def _reseal(self, entry: OutboxEntry) -> bytes:
        return self._writing.reencrypt(entry, now_ms=self._clock.now_ms())

    def _pass_on(self, change: OutboxEvent) -> None:
        if change.notice is OutboxEventType.SECURITY:
            self._house.session_failed(change.message_id)
            self._house_work.set()
        self._announcer.announce([change])

    def _tell(self) -> None:
        """After every commit."""
        changes = self.received.take_changes() + self._notes.take_changes()
        if any(change.notice is InboxEventType.NEW_MESSAGE for change in changes):
            self._arrived.set()
        self._announcer.announce(changes)

    def _connect(self, connect: Connector, relay: PinnedRelay, owner: Identity | None) -> Connect:
        async def connected() -> RelayConnection:
            link = await connect(relay, owner)
            if owner is not None:
                self._links.put_nowait(link)
                self.was_connected = True
            # Not at once: the carrier has yet to be given the link.
            asyncio.get_running_loop().call_soon(self.outbox.wake)
            return link

        return connected

    def _add_lanes(self, carrier: RelayCarrier, connect: Connector) -> None:
        for contact in self.contacts:
            carrier.add(contact.lane, self._connect(connect, contact.relay, None))

    async def _work(self, carrier: RelayCarrier, connect: Connector) -> None:
        # Not a TaskGroup: before Python 3.13 it forgets a cancellation that comes together with a task's own error.
        tasks = [
            asyncio.create_task(self.outbox.run({Route.RELAY: carrier})),
            asyncio.create_task(self._receive()),
            asyncio.create_task(self._keep_house(carrier, connect)),
            asyncio.create_task(self._stopping.wait()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        await self.outbox.drain({Route.RELAY: carrier}, budget_ms=self._settings.outbox.drain_budget_ms)

    async def _receive(self) -> None:
        """From one link after the other. A blob is deleted at the relay only once it is on our disk."""
        while True:
            link = await self._links.get()
            try:
                while True:
                    blobs = await link.next_blobs()
                    await self.receive(blobs)
                    await self._delete(link, [blob.blob_id for blob in blobs])
            except ConnectionLost:
                continue

    async def _delete(self, link: RelayConnection, blob_ids: list[int]) -> None:
        for start in range(0, len(blob_ids), MAX_DELETED_AT_ONCE):
            try:
                await link.delete_many(blob_ids[start : start + MAX_DELETED_AT_ONCE])
            except ConnectionLost:
                raise
            except AttemptFailed:
                continue  # it stays at the relay and comes again in the next session, as a duplicate

    async def _keep_house(self, carrier: RelayCarrier, connect: Connector) -> None:
        while True:
            self._house_work.clear()
            next_ms = await self.run_maintenance()
            if self.contacts.refresh():
                self._add_lanes(carrier, connect)
            wait_ms = max(0, next_ms - self._clock.now_ms())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1_000):
                    await self._house_work.wait()
