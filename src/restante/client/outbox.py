"""A durable send queue: `send` returns when the message is on disk, and every message ends with a visible reason.

    outbox = Outbox.open("outbox.db")
    receipt = await outbox.send(Message(payload=sealed), Destination(Route.RELAY, "bob"))
    await outbox.drain({Route.RELAY: carrier})

It needs no network: entries wait until a carrier for their route is given. Rules are in core/outbox and policy,
storage is in runtime/sqlite; this module puts them together for asyncio.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from restante.client.application.argument_checks import check_opening, wrong_type
from restante.client.application.carriers import log_crash
from restante.client.application.send_pacing import accepted_in_parts, in_batches
from restante.client.drain import Drain
from restante.client.entry_builder import EntryBuilder, check_id, check_items, check_message
from restante.client.event_stream import EventBroadcaster, EventStream
from restante.client.outbox_types import Destination, Drained, Message, Status
from restante.client.space_queue import SpaceQueue
from restante.core.outbox_events import (
    Cancelled,
    DeliveryAcked,
    Effect,
    Event,
    OutboxEventType,
    ReadAcked,
    ReceiptAcked,
    Recovered,
)
from restante.model.error_codes import Code
from restante.model.errors import RestanteError, StoreUnusable
from restante.model.ids import MESSAGE_ID_BYTES, MessageId, mint_message_id
from restante.model.send_receipt import Delivery, Dropped, Outcome, Queued, SendReceipt, Sent
from restante.model.states import DropReason, Route, State
from restante.policy.eligibility import classify
from restante.policy.settings import Settings
from restante.ports.carrier import Carrier, Withdrawn
from restante.ports.clock import Clock
from restante.ports.encryptor import Encryptor
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.runtime.sqlite.outbox.new_entry import NewEntry, OutboxEvent
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.acks import AckType

__all__ = ["Destination", "Drained", "Message", "Outbox", "Status"]

BULK: Final = 128
"""Messages of `send_paced` that share a commit."""
_EVENTS: Final[Mapping[AckType, Event]] = {
    AckType.DELIVERY: DeliveryAcked(),
    AckType.RECEIPT: ReceiptAcked(),
    AckType.READ: ReadAcked(),
}
_QUEUED: Final = Queued()
Result = TypeVar("Result")
Item = tuple[Message, Destination]


class Outbox:
    """The outbox of one client file. Several processes may use it; each entry is sent by one of them at a time."""

    def __init__(
        self,
        file: ClientFile,
        *,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        encryptor: Encryptor | None = None,
        owns_file: bool = False,
    ) -> None:
        """`file` is borrowed; with `owns_file`, `close` closes it, too.

        `encryptor` encrypts entries at their first lease that were accepted without a payload (SPEC 3.1).
        """
        self.file = file
        self._owns_file = owns_file
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._store = SqliteOutbox(file.database, file.journal, settings, encryptor=encryptor)
        self._events: EventBroadcaster[OutboxEvent] = EventBroadcaster()
        self._drain = Drain(file, self._store, settings=settings, clock=clock, entropy=entropy)
        self.lease_owner: Final = self._drain.owner
        self._space = SpaceQueue()
        self._accepted: dict[MessageId, asyncio.Future[bool]] = {}
        file.after_commit(self._follow_commit)
        self._builder = EntryBuilder()

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        encryptor: Encryptor | None = None,
    ) -> "Outbox":
        """Open the outbox in this file; create the file if it does not exist."""
        check_opening(path, settings)
        source = entropy or SystemEntropy()
        return cls(
            ClientFile.open(Path(path), entropy=source),
            settings=settings or Settings(),
            clock=clock or SystemClock(),
            entropy=source,
            encryptor=encryptor,
            owns_file=True,
        )

    async def send(
        self, message: Message, *destinations: Destination, wait: bool = False, deadline_s: float = 60.0
    ) -> SendReceipt:
        """Accept `message` for every destination or for none; on disk when this returns (SPEC 3.2, 3.7).

        Raises `TooLarge`, `OutOfRange`, `OutboxFull` or `DuplicateMessageId`; nothing is stored then. With `wait`, a
        full outbox makes it wait for space, up to `deadline_s` seconds, before it raises `OutboxFull`.
        """
        if not destinations:
            raise RestanteError("a message needs at least one destination", code=Code.MALFORMED)
        for destination in destinations:
            check_message(message, destination)
        if message.message_id is not None and len(destinations) > 1:
            raise RestanteError("one message_id names one destination's message", code=Code.MALFORMED)
        items = [(message, destination) for destination in destinations]
        deliveries = await self._send(items, wait=wait, deadline_s=deadline_s)
        return SendReceipt(tuple(deliveries))

    async def send_many(
        self, items: Sequence[Item], *, wait: bool = False, deadline_s: float = 60.0
    ) -> list[SendReceipt]:
        """Accept many messages with one commit: all of them or none. Raises and waits as `send` does."""
        check_items(items)
        deliveries = await self._send(items, wait=wait, deadline_s=deadline_s)
        return [SendReceipt((delivery,)) for delivery in deliveries]

    async def send_paced(
        self, items: Iterable[Item] | AsyncIterable[Item], *, deadline_s: float = 60.0
    ) -> AsyncIterator[SendReceipt]:
        """Accept any number of messages, as fast as there is space, and yield their receipts in order.

        Waits whenever the outbox is full; raises `OutboxFull` if there is no space for `deadline_s` seconds. What was
        yielded before is accepted.
        """

        async def accept(batch: list[Item], may_wait: bool) -> list[SendReceipt]:
            return await self.send_many(batch, wait=may_wait, deadline_s=deadline_s)

        async for batch in in_batches(items, size=BULK):
            async for receipts in accepted_in_parts(batch, accept):
                for receipt in receipts:
                    yield receipt

    def accept(self, new: Sequence[NewEntry], *, given: Sequence[MessageId] = (), now_ms: int) -> None:
        """Accept entries inside a transaction of the file, for parts of a client that write more in it.

        An idle connected lane leases its entry in the same transaction; the attempt begins after the commit.
        """
        idle = self._drain.idle_lanes((one.route, one.lane) for one in new)
        self._store.accept_all(new, given, now_ms)
        self._drain.lease_idle(idle, now_ms=now_ms)

    async def acknowledge(self, message_id: MessageId, ack: AckType) -> None:
        """Record a verified acknowledgement. Repeated and late ones change nothing (SPEC 3.13)."""
        check_id(message_id)
        if type(ack) is not AckType:
            raise wrong_type("ack must be an AckType", ack)
        event = _EVENTS[ack]
        await self.file.run(lambda: self._store.apply(message_id, event, now_ms=self._clock.now_ms()))
        self.wake(is_thorough=False)

    async def cancel(self, message_id: MessageId) -> bool:
        """Cancel a message; return whether it was still in flight. It becomes a dead letter (SPEC 5.2)."""
        return bool(await self._apply(message_id, Cancelled()))

    async def recover(self, message_id: MessageId) -> None:
        """Put a dead letter back into the queue, due at once (SPEC 5.4)."""
        if not await self._apply(message_id, Recovered()):
            raise RestanteError("there is no dead letter with this id", code=Code.NOT_FOUND)

    async def discard(self, message_id: MessageId) -> bool:
        """Delete a dead letter for good; return whether there was one."""
        check_id(message_id)
        return await self.file.run(lambda: self._store.discard(message_id, now_ms=self._clock.now_ms()))

    async def status(self, message_id: MessageId) -> Status | None:
        """Return where a message is; None for an id that was not accepted in the last 30 days."""
        check_id(message_id)
        return await self.file.run(lambda: self._status(message_id))

    async def counts(self) -> dict[State, int]:
        """Return how many messages are in flight, by state."""
        return await self.file.run(self._store.counts)

    async def within(self, operation: Callable[[SqliteOutbox], Result]) -> Result:
        """Run `operation` with the store in one transaction, for carriers; on disk when this returns."""
        return await self.file.run(lambda: operation(self._store))

    @property
    def store(self) -> SqliteOutbox:
        """The entries, for parts of a client that share the file; use them inside `file.run` only."""
        return self._store

    @property
    def max_entries(self) -> int:
        """The most messages it holds (SPEC 3.6)."""
        return self._settings.outbox.max_entries

    def events(self) -> EventStream[OutboxEvent]:
        """Return every event from now on, as an async iterator."""
        return self._events.stream()

    def on_event(self, callback: Callable[[OutboxEvent], None]) -> Callable[[], None]:
        """Call `callback` with each event after its commit; call the result to stop."""
        if not callable(callback):
            raise wrong_type("on_event takes a function", callback)
        return self._events.call(callback)

    async def run(self, carriers: Mapping[Route, Carrier]) -> None:
        """Send what is due until cancelled (SPEC 3.10). Wakes up for new entries, ended attempts and due times."""
        await self._drain.run(carriers)

    def wake(self, *, is_thorough: bool = True) -> None:
        """Look for due entries now: a lane was connected, or, not `is_thorough`, something in this file changed."""
        self._drain.wake(is_thorough=is_thorough)

    async def sweep(self) -> None:
        """End expired entries, take back expired leases, retry and delete dead letters that are due."""
        await self._drain.sweep()

    async def drain(self, carriers: Mapping[Route, Carrier] | None = None, *, budget_ms: int | None = None) -> Drained:
        """Try whatever is due on connected lanes until nothing is, or the budget is spent."""
        if budget_ms is not None and type(budget_ms) is not int:
            raise wrong_type("budget_ms must be a whole number of milliseconds", budget_ms)
        return await self._drain.drain(carriers, budget_ms=budget_ms)

    async def close(self) -> None:
        """Drain connected lanes once more, then close; the rest stays on disk (SPEC 3.10)."""
        if self._drain.carriers:
            with contextlib.suppress(StoreUnusable):  # the disk is full, or it was closed before
                await self.drain(budget_ms=self._settings.outbox.drain_budget_ms)
        self.abandon()

    def abandon(self) -> None:
        """Close at once; nothing is sent any more."""
        self._events.close()
        if self._owns_file:
            self.file.close()

    async def _send(self, items: Sequence[Item], *, wait: bool, deadline_s: float) -> list[Delivery]:
        new: list[NewEntry] = []
        given: list[MessageId] = []
        deliveries: list[Delivery | Item] = []
        now_ms = self._clock.now_ms()
        for message, destination in items:
            message_id = message.message_id or mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES))
            entry = self._builder.new_entry(message, message_id, destination, now_ms)
            if entry is None:
                deliveries.append((message, destination))
                continue
            new.append(entry)
            deliveries.append(Delivery(destination.lane, message_id, _QUEUED))
            if message.message_id is not None:
                given.append(message_id)
        if new:
            accept = partial(self.file.run, partial(self.accept, new, given=given, now_ms=now_ms))
            lanes = {(one.route, one.lane) for one in new}
            await (self._space.run(accept, lanes, deadline_s=deadline_s) if wait else accept())
        return [await self._finish(one) for one in deliveries]

    async def _finish(self, one: Delivery | Item) -> Delivery:
        """Send a real-time message, or wait for an upstream server's answer; other entries are queued."""
        if not isinstance(one, Delivery):
            message, destination = one
            message_id = message.message_id or mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES))
            return Delivery(destination.lane, message_id, await self._send_live(message, message_id, destination))
        accepted = self._accepted.get(one.message_id)
        if accepted is None:
            return one
        try:
            async with asyncio.timeout(self._settings.outbox.lease_ms / 1_000):
                return one._replace(outcome=Sent()) if await accepted else one
        except TimeoutError:
            return one
        finally:
            self._accepted.pop(one.message_id, None)

    async def _send_live(self, message: Message, message_id: MessageId, destination: Destination) -> Outcome:
        """Send at once or not at all, by the one classification of SPEC 2.4."""
        carrier = self._drain.carriers.get(destination.route)
        connected = self._drain.carriers.is_connected(destination.route, destination.lane)
        decision = classify(message.kind, connected=connected)
        if isinstance(decision, Dropped):
            return decision
        entry = self._builder.live_entry(message, message_id, destination, self._clock.now_ms())
        if carrier is not None:
            try:
                await carrier.transmit(entry)
            except (AttemptFailed, Withdrawn):
                pass
            except Exception as crash:  # noqa: BLE001 - a carrier is the application's code
                log_crash(destination.route, crash, "the message was dropped")
            else:
                return Sent()
        return Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)

    def _status(self, message_id: MessageId) -> Status | None:
        entry = self._store.load(message_id)
        if entry is None and (letter := self._store.dead_letters.load(message_id)) is not None:
            entry = letter.entry
        if entry is not None:
            return Status(
                state=entry.state,
                confirmation=entry.confirmation,
                attempts=entry.attempts,
                last_error=entry.last_error,
            )
        ended = self._store.ended.find(message_id)
        if ended is None:
            return None
        return Status(state=ended.state, confirmation=ended.confirmation, attempts=0, last_error=None)

    def _follow_commit(self) -> None:
        """After each commit: begin attempts that were leased in it, wake senders that wait for space, emit events."""
        for entry in self._drain.start_leased():
            if entry.route is Route.UPSTREAM:
                self._accepted[entry.message_id] = asyncio.get_running_loop().create_future()
        changes = self._store.take_changes()
        if not changes:
            return
        self._space.wake()
        if self._accepted:
            for change in changes:
                waiting = self._accepted.get(change.message_id)
                if waiting is not None and not waiting.done() and change.notice is not OutboxEventType.QUEUED:
                    waiting.set_result(change.notice in (OutboxEventType.SENT, OutboxEventType.DELIVERED))
        if self._events.is_heard:
            self._events.announce(changes)

    async def _apply(self, message_id: MessageId, event: Event) -> tuple[Effect, ...]:
        check_id(message_id)
        effects = await self.file.run(lambda: self._store.apply(message_id, event, now_ms=self._clock.now_ms()))
        self.wake(is_thorough=False)
        return effects
