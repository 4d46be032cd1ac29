"""One endpoint: sends, receives and acknowledges messages, encrypted end to end, from one directory.

    async with Client.open("alice") as client:
        sent = await client.send("bob", "bonjour")
        await sent.delivered(timeout=60)
        async for message in client.inbox():
            print(message.sender_name, message.text)

`client/composition` builds the parts. Outbox, inbox and sessions share one `ClientFile`, which commits every change.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from restante.client.ack_timer import AckTimer
from restante.client.application.argument_checks import check_opening, check_seconds
from restante.client.application.inbox_reader import InboxReader, ReceivedMessage
from restante.client.application.mail_sender import MailSender
from restante.client.application.send_pacing import SPACE_DEADLINE_S
from restante.client.application.sent_message import SentMessage
from restante.client.composition import build_parts
from restante.client.contacts import Contact, ContactBook
from restante.client.event_stream import EventBroadcaster, EventStream
from restante.client.home import ClientDirectory
from restante.client.incoming import Unsealed
from restante.client.introductions.contact_keys import ContactKeys
from restante.client.introductions.own_keys import OwnKeys
from restante.client.mesh.host import MeshAccess, MeshHost
from restante.client.outbox_types import Status
from restante.client.places.online import Online
from restante.client.places.own_places import OwnPlaces
from restante.client.relay.connector import Connector, connect_by_tls
from restante.client.relay.receiver import RECEIVE_DELAY_S
from restante.core.inbox_events import InboxEventType
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.outbox_events import OutboxEventType
from restante.crypto.identity import Identity
from restante.model.ids import Address, MessageId, PayloadHash
from restante.model.kinds import Kind
from restante.model.places import Place
from restante.model.states import Route
from restante.policy.settings import Settings
from restante.ports.carrier import Carrier
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed, StoredBlob
from restante.runtime.event_wait import set_or_after
from restante.runtime.run_together import RunOnce
from restante.runtime.sqlite.file.space_reserve import once_there_is_space
from restante.runtime.sqlite.inbox.results import InboxEvent
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent
from restante.runtime.sqlite.session_store import SessionSummary, summaries
from restante.runtime.system import SystemClock, SystemEntropy

BATCH: Final = 128  # the most arrivals that share a transaction

ClientEvent = OutboxEvent | InboxEvent


class Client:
    """Everything one identity has on this machine. Several processes may have it open at once."""

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        contacts: ContactBook,
        places: Sequence[Place] | OwnPlaces,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        sends_read_acks: bool = False,
        ship_to: str | None = None,
        carriers: Mapping[Route, Carrier] | None = None,
        mesh: MeshAccess | Callable[[], MeshAccess | None] | None = None,
        receive_delay_s: float = RECEIVE_DELAY_S,
    ) -> None:
        """`places` store our own mail, `mesh` is how the mesh is reached, `carriers` replace the usual ones.

        Places and mesh that are no plain values are looked up again while the client runs.
        """
        self.identity = identity
        self.contacts = contacts
        self.own_places = places if isinstance(places, OwnPlaces) else OwnPlaces(places)
        self._clock = clock
        self._settings = settings
        self._entropy = entropy
        self._mesh: Callable[[], MeshAccess | None] = mesh if callable(mesh) else lambda: mesh
        self._maintenance_due = asyncio.Event()
        self._ack_timer = AckTimer(settings.acks, on_due=self._maintenance_due.set)
        self.parts = parts = build_parts(
            path,
            identity,
            contacts=contacts,
            places=self.own_places,
            settings=settings,
            clock=clock,
            entropy=entropy,
            ship_to=ship_to,
        )
        self.file = parts.file
        self.journal = parts.file.journal
        self.outbox = parts.outbox
        self.received = parts.inbox
        self.shipping = parts.shipping
        self._reader = InboxReader(
            parts.file,
            parts.inbox,
            contacts=contacts,
            clock=clock,
            sends_read_acks=sends_read_acks,
            on_read=self._maintenance_due.set,
        )
        self.own_keys = OwnKeys(parts, identity, self.own_places, clock=clock)
        self._keys = ContactKeys(parts, contacts, open_mesh=self.mesh_host, clock=clock)
        self._sender = MailSender(parts, contacts=contacts, clock=clock, entropy=entropy, refresh=self._keys.refresh)
        self._life = RunOnce()
        self.online = Online(
            parts,
            contacts,
            identity=identity,
            places=self.own_places,
            open_mesh=lambda: None if self._mesh() is None else self.mesh_host(),
            jobs=self._jobs,
            carriers=dict(carriers or {}),
            take=lambda inbox, blobs: once_there_is_space(partial(self.receive, blobs, inbox=inbox)),
            stopping=self._life.stopping,
            settings=settings,
            clock=clock,
            entropy=entropy,
            delay_s=receive_delay_s,
            on_wrong_key=self._report_wrong_key,
        )
        self._running: asyncio.Task[None] | None = None
        self._events: EventBroadcaster[ClientEvent] = EventBroadcaster()
        self.outbox.on_event(self._forward_outbox_event)
        self.file.after_commit(self._emit_inbox_events)

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
        carriers: Mapping[Route, Carrier] | None = None,
        receive_delay_s: float = RECEIVE_DELAY_S,
    ) -> "Client":
        """Open the client of a directory that `restante id new` or `ClientDirectory.create` made.

        With `ship_to`, an absolute path or a URL, the client ships its journal there while it runs and when it ends.
        """
        check_opening(directory, settings)
        check_seconds("receive_delay_s", receive_delay_s)
        home = ClientDirectory(Path(directory))
        return cls(
            home.database,
            home.identity(passphrase=passphrase),
            contacts=home.contact_book(),
            places=home.own_places(),
            settings=settings or Settings(),
            clock=clock or SystemClock(),
            entropy=entropy or SystemEntropy(),
            sends_read_acks=sends_read_acks,
            ship_to=ship_to,
            carriers=carriers,
            mesh=home.mesh_access,
            receive_delay_s=receive_delay_s,
        )

    async def __aenter__(self) -> Self:
        """Connect and run in the background until the block ends."""
        self._life.start()
        self._running = asyncio.create_task(self._run(connect_by_tls))
        self._running.add_done_callback(self._run_ended)
        return self

    async def __aexit__(self, *_: object) -> None:
        running, self._running = self._running, None
        await self.close()
        if running is not None:
            await running

    async def send(
        self,
        to: str | Address | Contact,
        body: str | bytes,
        *,
        kind: str = Kind.TEXT,
        ttl_s: int | None = None,
        wait: bool = True,
        deadline_s: float = SPACE_DEADLINE_S,
    ) -> SentMessage:
        """Accept one message for a contact, given by name or address; it is on disk when this returns (SPEC 3.2, 3.7).

        With a full outbox, wait for space up to `deadline_s` s; without `wait`, or after that, raise `OutboxFull`.
        Raises `TooLarge`, `OutOfRange`, `Malformed`, or `RestanteError` if `to` is no contact or its prekeys are too
        old and the mesh has no newer ones. Nothing was stored then.
        """
        return await self._sender.send(to, body, kind=kind, ttl_s=ttl_s, wait=wait, deadline_s=deadline_s)

    async def send_many(
        self,
        to: str | Address | Contact,
        bodies: Iterable[str | bytes] | AsyncIterable[str | bytes],
        *,
        kind: str = Kind.TEXT,
        ttl_s: int | None = None,
        wait: bool = True,
        deadline_s: float = SPACE_DEADLINE_S,
    ) -> list[SentMessage]:
        """Accept many messages for one contact, in order, many in one commit.

        Bodies are taken no faster than the outbox has space for them, from an async iterable as they come. If one is
        refused, those before it stay accepted: the error's `accepted` is how many.
        """
        return await self._sender.send_many(to, bodies, kind=kind, ttl_s=ttl_s, wait=wait, deadline_s=deadline_s)

    async def status(self, message_id: MessageId) -> Status | None:
        """Return the state of a message; None for one that was not accepted here in the last 30 days (SPEC 3.13)."""
        return await self.outbox.status(message_id)

    def inbox(self, *, follow: bool = True, explicit_acks: bool = False) -> AsyncGenerator[ReceivedMessage, None]:
        """Iterate over messages not acked yet, in order, then over each new one as it arrives (SPEC 9.8).

        Asking for the next message acks the one before, unless `explicit_acks`: then only `message.ack()` does. What
        is not acked is shown again after a restart. With `follow` False the iteration ends with the last unread one.
        """
        return self._reader.messages(follow=follow, explicit_acks=explicit_acks)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def events(self) -> EventStream[ClientEvent]:
        """Return a stream of everything that happens to messages in both directions from now on (SPEC 3.12)."""
        return self._events.stream()

    async def run(self, connect: Connector = connect_by_tls) -> None:
        """Stay connected, send, receive and acknowledge until `close` or cancellation."""
        self._life.start()
        await self._run(connect)

    async def _run(self, connect: Connector) -> None:
        self.shipping.start()
        try:
            await self.online.run(connect)
        finally:
            self._life.stopped.set()

    async def close(self) -> None:
        """End `run` after a last drain of connected lanes (SPEC 3.10), ship the journal, then close the file."""
        self._life.stopping.set()
        self._reader.close()
        self._maintenance_due.set()
        await self._life.stopped.wait()
        await self._reader.finished()
        self._events.close()
        await self.shipping.finish()
        await self.outbox.close()
        self.file.close()

    async def receive(self, blobs: Sequence[StoredBlob], *, inbox: OwnInbox | None = None) -> set[PayloadHash]:
        """Unseal, decrypt and store arrivals; return those that are new. All are on disk when this returns.

        `inbox` is the one they came by, if that is known.
        """
        new: set[PayloadHash] = set()
        for start in range(0, len(blobs), BATCH):
            unsealed = self.parts.incoming.unseal(blobs[start : start + BATCH])
            new |= await self.file.run(partial(self._store_arrivals, unsealed, inbox))
        self._ack_timer.note(len(blobs))
        self.outbox.wake(is_thorough=False)
        return new

    async def run_maintenance(self) -> int:
        """Do what is due by time (SPEC 8.1, 9.5, 9.7, 10.5) and return when to run again."""
        maintenance = self.parts.maintenance
        self._ack_timer.reset()
        run_due = partial(maintenance.run_due, now_ms=self._clock.now_ms(), has_read_all=self.online.has_read_all)
        next_ms = await self.file.run(run_due)
        self.outbox.wake(is_thorough=False)
        return next_ms

    async def as_contact(self) -> Contact:
        """Return what others need to write to us: card, prekeys and places, all signed."""
        return await self.own_keys.as_contact()

    def mesh_host(self) -> MeshHost:
        """Return what reaches the mesh, to be entered. Raises `ConfigurationInvalid` if the client knows no mesh."""
        access, wake = self._mesh(), self.outbox.wake
        return MeshHost(access, self.file, self._settings, clock=self._clock, entropy=self._entropy, on_change=wake)

    async def sessions(self) -> list[SessionSummary]:
        """Return a summary of every session; it contains no key."""
        return await self.file.run(partial(summaries, self.file.database))

    async def reset_sessions(self, to: str) -> None:
        """Delete the sessions with a contact and open a new one that tells it (SPEC 8.7)."""
        lose = partial(self.parts.recovery.lose_state, self.contacts.named(to).address, now_ms=self.now_ms())
        await self.file.run(lose)

    @property
    def sends_read_acks(self) -> bool:
        """Whether senders get a READ ack when their message was read (SPEC 10.1)."""
        return self._reader.sends_read_acks

    @sends_read_acks.setter
    def sends_read_acks(self, value: bool) -> None:
        self._reader.sends_read_acks = value

    @property
    def running_mesh(self) -> MeshHost | None:
        """What reaches the mesh while the client runs."""
        return self.online.mesh

    @property
    def was_connected(self) -> bool:
        """Whether each of our inboxes was reached at one of our places."""
        return self.online.was_connected

    @property
    def connection_failure(self) -> AttemptFailed | None:
        """Why one of our inboxes can be read at none of our places; None while each is read or tried."""
        return self.online.failure

    async def has_unread(self) -> bool:
        """Return whether a message arrived that was not acked yet."""
        return await self._reader.has_unread()

    async def has_acknowledged(self) -> bool:
        """Return whether no acknowledgement is pending, and none waits to be sent."""
        if await self._owes_acks():
            return False
        entries = await self.file.run(lambda: self.outbox.store.entries(limit=256))
        return all(entry.kind is not Kind.CONTROL for entry in entries)

    async def is_settled(self) -> bool:
        """Return whether nothing is in flight and no acknowledgement is pending."""
        return not await self._owes_acks() and not await self.outbox.counts()

    async def _owes_acks(self) -> bool:
        return bool(await self.file.run(lambda: self.received.owed(self._settings.acks, now_ms=self.now_ms())))

    def _store_arrivals(self, arrivals: Sequence[Unsealed], inbox: OwnInbox | None) -> set[PayloadHash]:
        now_ms = self._clock.now_ms()
        with self.received.batch(now_ms=now_ms) as batch:
            return self.parts.incoming.receive(arrivals, batch, inbox=inbox, now_ms=now_ms)

    def _forward_outbox_event(self, event: OutboxEvent) -> None:
        self._sender.notice(event)
        if event.notice is OutboxEventType.SECURITY:
            self._maintenance_due.set()
        if self._events.is_heard:
            self._events.announce([event])

    def _emit_inbox_events(self) -> None:
        events = self.received.take_changes() + self.parts.security.take_changes()
        if not events:
            return
        if any(event.notice is InboxEventType.NEW_MESSAGE for event in events):
            self._reader.wake()
        self._events.announce(events)

    def _report_wrong_key(self) -> None:
        self.parts.maintenance.wrong_node_key()
        self._maintenance_due.set()

    def _jobs(self, mesh: MeshHost | None) -> list[Coroutine[Any, Any, object]]:
        jobs: list[Coroutine[Any, Any, object]] = [self._run_maintenance_when_due()]
        if mesh is not None:
            jobs += (mesh.keep_published(self.identity, self.own_keys.published), self._keys.keep_fresh(mesh))
        return jobs

    async def _run_maintenance_when_due(self) -> None:
        while True:
            self._maintenance_due.clear()
            next_ms = await once_there_is_space(self.run_maintenance)
            self.online.look_for_changes()
            await self.parts.requests.deliver_accepted(self.receive)
            await set_or_after(self._maintenance_due, max(0, next_ms - self._clock.now_ms()) / 1_000)

    def _run_ended(self, run: asyncio.Task[None]) -> None:
        """Pass an error of `run` on to iterations over the inbox; they would wait for ever otherwise."""
        if not run.cancelled() and (failure := run.exception()) is not None:
            self._reader.fail(failure)
