"""A durable send queue: `send` returns when the message is on disk, and every message ends with a reason you can see.

    outbox = Outbox.open("outbox.db")
    receipt = await outbox.send(Message(payload=sealed), Destination(Route.RELAY, "relay-1"))
    await outbox.drain({Route.RELAY: carrier})

Needs no network: entries wait for whatever carrier it is given. Rules are in core/outbox and policy, storage in
runtime/sqlite; here they are put together for asyncio.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from restante.client.attempts import SUCCEEDED, AttemptRunner, Ending
from restante.client.entry_builder import EntryBuilder
from restante.client.event_stream import EventBroadcaster, EventStream
from restante.client.outbox_types import Destination, Drained, Message, Status
from restante.core.outbox_events import (
    Cancelled,
    DeliveryAcked,
    Effect,
    Event,
    ReadAcked,
    ReceiptAcked,
    Recovered,
    Reencrypt,
    TransmitFailed,
)
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import MESSAGE_ID_BYTES, MessageId, mint_message_id
from restante.model.ids import message_id as checked_message_id
from restante.model.outbox_entry import OutboxEntry
from restante.model.send_receipt import Delivery, Dropped, Outcome, Queued, SendReceipt, Sent
from restante.model.states import DropReason, Route, State
from restante.policy.eligibility import classify
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from restante.ports.carrier import Carrier, Withdrawn
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.runtime.sqlite.outbox.new_entry import NewEntry, OutboxEvent
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.acks import AckType

__all__ = ["IN_FLIGHT", "Destination", "Drained", "Message", "Outbox", "Reseal", "Status"]

IN_FLIGHT: Final = 64  # how many tries a drain has under way at once
_EVENTS: Final[Mapping[AckType, Event]] = {
    AckType.DELIVERY: DeliveryAcked(),
    AckType.RECEIPT: ReceiptAcked(),
    AckType.READ: ReadAcked(),
}
_QUEUED: Final = Queued()
Result = TypeVar("Result")
Reseal = Callable[[OutboxEntry], bytes]
"""Seals the plaintext that an entry keeps (`sealed_plaintext`) for its recipient anew."""


class Outbox:
    """One database file. Several processes may have it open; each entry is sent by one of them at a time."""

    def __init__(
        self,
        file: ClientFile,
        *,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        reseal: Reseal | None = None,
        owns_file: bool = False,
    ) -> None:
        """`file` is borrowed; with `owns_file`, `close` closes it, too."""
        self.file = file
        self._owns_file = owns_file
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._reseal = reseal
        self._store = SqliteOutbox(file.database, file.journal, settings)
        self._announcer: EventBroadcaster[OutboxEvent] = EventBroadcaster()
        file.after_commit(self._announce)
        self._owner = entropy.draw(8).hex()
        self._carriers: Mapping[Route, Carrier] = {}
        self._work = asyncio.Event()
        self._forms = EntryBuilder(settings.outbox)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        reseal: Reseal | None = None,
    ) -> "Outbox":
        """Open the outbox in this file; create the file if it does not exist.

        `reseal` is asked for a new payload when encryption failed or the session broke (E008, E009); without it the
        old payload is tried again.
        """
        source = entropy or SystemEntropy()
        return cls(
            ClientFile.open(Path(path), entropy=source),
            settings=settings or Settings(),
            clock=clock or SystemClock(),
            entropy=source,
            reseal=reseal,
            owns_file=True,
        )

    async def send(self, message: Message, *destinations: Destination) -> SendReceipt:
        """Accept `message` for every destination or for none; on disk when this returns (SPEC 3.2, 3.7).

        Raises `TooLarge`, `OutOfRange`, `OutboxFull` or `DuplicateMessageId`, and then nothing was kept.
        """
        if not destinations:
            raise RestanteError("a message needs at least one destination", code=Code.MALFORMED)
        if message.message_id is not None and len(destinations) > 1:
            raise RestanteError("one message_id names one destination's message", code=Code.MALFORMED)
        deliveries: list[Delivery] = []
        arrivals: list[NewEntry] = []
        brought: list[MessageId] = []
        now_ms = self._clock.now_ms()
        for destination in destinations:
            delivery = self._queued(message, destination, now_ms, arrivals, brought)
            deliveries.append(delivery or await self._send_live(message, destination))
        if arrivals:
            await self.file.run(partial(self._store.accept_all, arrivals, brought, now_ms))
            self._work.set()
        return SendReceipt(tuple(deliveries))

    async def send_many(self, items: Sequence[tuple[Message, Destination]]) -> list[SendReceipt]:
        """The same for many messages with one commit: all of them are accepted, or none."""
        receipts: list[SendReceipt] = []
        arrivals: list[NewEntry] = []
        brought: list[MessageId] = []
        now_ms = self._clock.now_ms()
        for message, destination in items:
            delivery = self._queued(message, destination, now_ms, arrivals, brought)
            receipts.append(SendReceipt((delivery or await self._send_live(message, destination),)))
        if arrivals:
            await self.file.run(partial(self._store.accept_all, arrivals, brought, now_ms))
            self._work.set()
        return receipts

    async def acknowledge(self, message_id: MessageId, ack: AckType) -> None:
        """A checked acknowledgement came in. Repeated and late ones change nothing (SPEC 3.13)."""
        event = _EVENTS[ack]
        await self.file.run(lambda: self._step(message_id, event))
        self._work.set()

    async def cancel(self, message_id: MessageId) -> bool:
        """Take a message back; whether it was still in flight. It becomes a dead letter (SPEC 5.2)."""
        return bool(await self._apply(message_id, Cancelled()))

    async def recover(self, message_id: MessageId) -> None:
        """Put a dead letter back into the queue, due at once (SPEC 5.4)."""
        if not await self._apply(message_id, Recovered()):
            raise RestanteError("there is no dead letter with this id", code=Code.NOT_FOUND)

    async def discard(self, message_id: MessageId) -> bool:
        """Delete a dead letter for good; whether there was one."""
        return await self.file.run(lambda: self._store.discard(message_id, now_ms=self._clock.now_ms()))

    async def status(self, message_id: MessageId) -> Status | None:
        """Where the message is; None for one that is not known, or not any more."""
        return await self.file.run(lambda: self._status(message_id))

    async def counts(self) -> dict[State, int]:
        """How many messages are in flight, by state."""
        return await self.file.run(self._store.counts)

    async def within(self, operation: Callable[[SqliteOutbox], Result]) -> Result:
        """What `operation` does with the store, in one transaction; on disk when this returns. For carriers."""
        return await self.file.run(lambda: operation(self._store))

    @property
    def store(self) -> SqliteOutbox:
        """The entries, for parts of a client that share the file; use them inside `file.run` only."""
        return self._store

    def events(self) -> EventStream[OutboxEvent]:
        """Every change from now on, as an async iterator."""
        return self._announcer.stream()

    @property
    def max_entries(self) -> int:
        """How many messages it holds at most (SPEC 3.6)."""
        return self._settings.outbox.max_entries

    def on_event(self, callback: Callable[[OutboxEvent], None]) -> Callable[[], None]:
        """Call back after each commit that changed a message; call the answer to stop."""
        return self._announcer.call(callback)

    async def run(self, carriers: Mapping[Route, Carrier]) -> None:
        """Drain at start within the budget, then whenever something is due; ends by cancellation (SPEC 3.10)."""
        self._carriers = carriers
        limits = self._settings.outbox
        while True:
            self._work.clear()
            await self.sweep()
            drained = await self.drain(budget_ms=limits.drain_budget_ms)
            if not drained.is_complete:
                continue
            wait_ms = min(await self._next_due_ms() - self._clock.now_ms(), limits.sweep_interval_ms)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0, wait_ms) / 1_000):
                    await self._work.wait()

    def wake(self) -> None:
        """A lane came back: look at once whether something waits for it."""
        self._work.set()

    async def sweep(self) -> None:
        """End what has expired, take up what a dead process held, retry and delete dead letters whose day has come."""

        def sweep() -> None:
            now_ms = self._clock.now_ms()
            while self._store.sweep(now_ms=now_ms):
                pass
            self._store.tidy(now_ms=now_ms)

        await self.file.run(sweep)

    async def drain(self, carriers: Mapping[Route, Carrier] | None = None, *, budget_ms: int | None = None) -> Drained:
        """Try whatever is due on connected lanes, `IN_FLIGHT` at a time, until nothing is or the budget is spent."""
        ways = self._carriers if carriers is None else carriers
        ends_at_ms = None if budget_ms is None else self._clock.now_ms() + budget_ms
        tries = AttemptRunner(self._failed)
        ended: list[Ending] = []
        sent = failed = 0
        is_complete = False
        try:
            while not is_complete or tries.under_way:
                in_time = ends_at_ms is None or self._clock.now_ms() < ends_at_ms
                room = IN_FLIGHT - tries.under_way if in_time else 0
                told, ended = ended, []
                leased = await self._record_and_lease(told, ways, room)
                for entry in leased:
                    tries.start(entry, ways[entry.route])
                is_complete = in_time and not leased
                if not tries.under_way:
                    break
                ended = await tries.next_endings()
                succeeded = sum(event is SUCCEEDED or isinstance(event, DeliveryAcked) for _, event in ended)
                sent, failed = sent + succeeded, failed + len(ended) - succeeded
        finally:
            ended += await tries.stop()
            if ended:
                await asyncio.shield(self._record_and_lease(ended, {}, 0))
        return Drained(sent=sent, failed=failed, is_complete=is_complete)

    async def close(self) -> None:
        """One last drain of connected lanes, then the file is closed; the rest stays on disk (SPEC 3.10)."""
        if self._carriers:
            await self.drain(budget_ms=self._settings.outbox.drain_budget_ms)
        self.abandon()

    def abandon(self) -> None:
        """Close the file at once, with nothing sent any more."""
        self._announcer.close()
        if self._owns_file:
            self.file.close()

    def _queued(
        self,
        message: Message,
        destination: Destination,
        now_ms: int,
        arrivals: list[NewEntry],
        brought: list[MessageId],
    ) -> Delivery | None:
        """Adds to `arrivals`, and to `brought` an id that was given, unless the kind of message is never queued."""
        given = message.message_id
        if given is None:
            message_id = mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES))
        else:
            message_id = checked_message_id(given)
        arrival = self._forms.arrival(message, message_id, destination, now_ms)
        if arrival is None:
            return None
        arrivals.append(arrival)
        if given is not None:
            brought.append(given)
        return Delivery(destination.lane, message_id, _QUEUED)

    async def _send_live(self, message: Message, destination: Destination) -> Delivery:
        """At once or not at all, by the one classification of SPEC 2.4."""
        message_id = message.message_id or mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES))
        return Delivery(destination.lane, message_id, await self._try_live(message, message_id, destination))

    async def _try_live(self, message: Message, message_id: MessageId, destination: Destination) -> Outcome:
        carrier = self._carriers.get(destination.route)
        connected = carrier is not None and carrier.is_up() and carrier.is_connected(destination.lane)
        decision = classify(message.kind, connected=connected)
        if isinstance(decision, Dropped):
            return decision
        try:
            entry = self._forms.entry(message, message_id, destination, self._clock.now_ms())
            await self._carriers[entry.route].transmit(entry)
        except (AttemptFailed, Withdrawn):
            return Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)
        return Sent()

    async def _record_and_lease(
        self, told: Sequence[Ending], ways: Mapping[Route, Carrier], room: int
    ) -> list[OutboxEntry]:
        """How the last tries ended and what is tried next, in one commit."""

        def work() -> list[OutboxEntry]:
            for message_id, event in told:
                self._step(message_id, event)
                if isinstance(event, DeliveryAcked):  # the next hop took it, and signed that it holds it
                    self._step(message_id, SUCCEEDED)
            return self._lease(ways, room) if room else []

        return await self.file.run(work) if told or room else []

    def _lease(self, ways: Mapping[Route, Carrier], limit: int) -> list[OutboxEntry]:
        return self._store.lease(
            owner=self._owner,
            routes=[route for route, carrier in ways.items() if carrier.is_up()],
            is_connected=lambda route, lane: ways[route].is_connected(lane),
            limit=limit,
            now_ms=self._clock.now_ms(),
        )

    def _failed(self, failure: Failure, retry_after_ms: int | None) -> TransmitFailed:
        return TransmitFailed(
            owner=self._owner, failure=failure, retry_after_ms=retry_after_ms, dice=self._entropy.dice()
        )

    async def _next_due_ms(self) -> int:
        """When something will need attention, as far as that is known now."""

        def first() -> int:
            times = (self._store.next_wake_ms(), self._store.dead_letters.next_tidy_ms())
            known = [at_ms for at_ms in times if at_ms is not None]
            return min(known, default=self._clock.now_ms() + self._settings.outbox.sweep_interval_ms)

        return await self.file.run(first)

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
        confirmation = self._store.sent.confirmation(message_id)
        if confirmation is None:
            return None
        return Status(state=State.DELIVERED, confirmation=confirmation, attempts=0, last_error=None)

    def _announce(self) -> None:
        if self._announcer.is_heard:
            self._announcer.announce(self._store.take_changes())
        else:
            self._store.changes.clear()

    async def _apply(self, message_id: MessageId, event: Event) -> bool:
        """Whether the event had any effect."""
        effects = await self.file.run(lambda: self._step(message_id, event))
        self._work.set()
        return bool(effects)

    def _step(self, message_id: MessageId, event: Event) -> tuple[Effect, ...]:
        now_ms = self._clock.now_ms()
        effects = self._store.apply(message_id, event, now_ms=now_ms)
        if self._reseal is not None and any(isinstance(effect, Reencrypt) for effect in effects):
            entry = self._store.load(message_id)
            if entry is not None:
                self._store.replace_payload(message_id, self._reseal(entry), now_ms=now_ms)
        return effects
