"""One endpoint: accepts messages durably, carries them to a relay, takes in what arrives and acknowledges it.

Composition only: rules are in core and policy, storage in runtime/sqlite. All writes happen on the caller's loop.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from restante.core.acks import checked_receipts, receipts
from restante.core.letters import Draft, enclose, open_envelope, write
from restante.core.outbox_events import DeliveryAcked, ReadAcked, ReceiptAcked, TransmitFailed, TransmitSucceeded
from restante.crypto.at_rest import NONCE_BYTES, StorageSeal
from restante.crypto.identity import Identity, checked_card
from restante.crypto.tags import session_tag
from restante.model.cards import ContactCard
from restante.model.codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import (
    MESSAGE_ID_BYTES,
    SESSION_ID_BYTES,
    Address,
    MessageId,
    NodeId,
    SessionId,
    mint_message_id,
)
from restante.model.journal import JournalKind
from restante.model.kinds import KIND_RULES, Kind
from restante.model.records import Delivery, Dropped, InboxEntry, OutboxEntry, Outcome, Queued, Receipt
from restante.model.states import Route
from restante.policy.eligibility import Queue, classify
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from restante.policy.ttl import resolve_ttl_s, transport_expiry_ms
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay import LinkLost, RelayLink, TryFailed
from restante.runtime.sqlite.database import Database
from restante.runtime.sqlite.inbox import SqliteInbox
from restante.runtime.sqlite.inbox_records import Arrival
from restante.runtime.sqlite.journal import Journal
from restante.runtime.sqlite.outbox import SqliteOutbox
from restante.runtime.sqlite.owed_acks import OwedBatch
from restante.wire.acks import AckType
from restante.wire.envelope import decode_envelope, payload_hash

IDLE_MS: Final = 1_000  # how long the carrier waits at most before it looks at the outbox again
_INBOX_PAGE: Final = 1_000


class Client:
    """Everything one identity has on this machine, in one file."""

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        contacts: Mapping[Address, ContactCard],
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        relay: NodeId | None = None,
    ) -> None:
        self.identity = identity
        self._relay = relay
        self._contacts = {address: checked_card(card) for address, card in contacts.items()}
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._database = Database(path, schema="client")
        self._seal = StorageSeal(identity.storage_key)
        self.journal = Journal(self._database, entropy)
        self.outbox = SqliteOutbox(self._database, self.journal, settings)
        self.inbox = SqliteInbox(
            self._database, self.journal, settings, seal=self._seal, entropy=entropy, tag_secret=identity.tag_secret
        )
        self._owner = entropy.draw(8).hex()
        self._work = asyncio.Event()
        self._sweep_at_ms = 0

    def close(self) -> None:
        self._database.close()

    def send(self, to: Address, body: bytes, *, lane: str, kind: Kind = Kind.TEXT, ttl_s: int | None = None) -> Receipt:
        """Accept one message; it is on disk when this returns (SPEC 3.2, 3.7)."""
        message_id = mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES))
        decision = classify(kind, connected=False)
        if isinstance(decision, Queue):
            with self._database.transaction():
                self._enqueue(message_id, self._contact(to), body, lane=lane, kind=kind, ttl_s=ttl_s)
            self._work.set()
        outcome: Outcome = decision if isinstance(decision, Dropped) else Queued()
        return Receipt(deliveries=(Delivery(destination=lane, message_id=message_id, outcome=outcome),))

    def received(self, *, after: int = 0) -> list[tuple[int, InboxEntry]]:
        """Messages for the application with a place above `after`, in order."""
        return self.inbox.released(after=after, limit=_INBOX_PAGE, now_ms=self._clock.now_ms())

    async def carry(self, link: RelayLink) -> None:
        """Send what is due, for as long as the link holds; raises `LinkLost` when it is gone."""
        while True:
            now_ms = self._clock.now_ms()
            self.outbox.sweep(now_ms=now_ms)
            entry = self.outbox.lease_next(owner=self._owner, now_ms=now_ms)
            if entry is None:
                await self._wait_for_work(self.outbox.next_wake_ms())
                continue
            await self._try(link, entry)

    async def take_in(self, link: RelayLink) -> None:
        """Take in what the relay holds for us; a blob is deleted there only once it is on our disk."""
        while True:
            blob = await link.next_blob()
            self.arrive(blob.envelope, server_timestamp_ms=blob.stored_at_ms)
            try:
                await link.delete(blob.blob_id)
            except LinkLost:
                raise
            except TryFailed:
                continue  # it stays at the relay and comes again in the next session, as a duplicate

    def arrive(self, envelope: bytes, *, server_timestamp_ms: int) -> None:
        """One arrival, whatever it is; what does not open or cannot be placed is recorded and let go."""
        now_ms = self._clock.now_ms()
        try:
            opened = open_envelope(envelope, reader=self.identity)
        except RestanteError as error:
            self._suspect(error.code, envelope, now_ms)
            return
        if opened.letter.sender not in self._contacts:
            # Nobody we could seal a receipt for; taking it in would promise one.
            self._suspect("unknown_sender", envelope, now_ms)
            return
        with self._database.transaction():
            arrival = self.inbox.take_in(opened, server_timestamp_ms=server_timestamp_ms, now_ms=now_ms)
            self._follow(arrival, now_ms)
        self.inbox.take_changes()  # nobody listens here yet; the journal has them all
        self._work.set()

    async def acknowledge(self, *, lane: str) -> None:
        """Queue receipts in batches, within a second or 64 of them (SPEC 10.5)."""
        while True:
            now_ms = self._clock.now_ms()
            self._pass_time(now_ms)
            batches = self.inbox.owed(self._settings.acks)
            for batch in batches:
                if batch.due_at_ms <= now_ms:
                    self._queue_acks(batch, lane=lane, now_ms=now_ms)
            await self._wait_for_work(min((batch.due_at_ms for batch in batches), default=None))

    def _contact(self, who: Address) -> ContactCard:
        card = self._contacts.get(who)
        if card is None:
            raise RestanteError("that address is not among the contacts; add its card first", code=Code.NOT_FOUND)
        return card

    def _suspect(self, code: str, envelope: bytes, now_ms: int) -> None:
        with self._database.transaction():
            self.journal.append(JournalKind.SECURITY, at_ms=now_ms, code=code, size_bytes=len(envelope))

    async def _try(self, link: RelayLink, entry: OutboxEntry) -> None:
        try:
            await link.put(entry.payload)
        except TryFailed as failed:
            self._give_back(entry, failed.failure, failed.retry_after_ms)
            if isinstance(failed, LinkLost):
                raise
            return
        except asyncio.CancelledError:
            # The link broke under the try: give the claim back now rather than wait for it to lapse.
            self._give_back(entry, Failure.NETWORK_TIMEOUT, None)
            raise
        now_ms = self._clock.now_ms()
        with self._database.transaction():
            self.outbox.apply(entry.message_id, DeliveryAcked(node=self._relay), now_ms=now_ms)
            self.outbox.apply(entry.message_id, TransmitSucceeded(), now_ms=now_ms)

    def _give_back(self, entry: OutboxEntry, failure: Failure, retry_after_ms: int | None) -> None:
        failed = TransmitFailed(
            owner=self._owner, failure=failure, retry_after_ms=retry_after_ms, dice=self._entropy.dice()
        )
        self.outbox.apply(entry.message_id, failed, now_ms=self._clock.now_ms())

    async def _wait_for_work(self, until_ms: int | None) -> None:
        """Until somebody has work, or `until_ms`, or a second, whichever comes first."""
        wait_ms = IDLE_MS if until_ms is None else min(IDLE_MS, max(0, until_ms - self._clock.now_ms()))
        self._work.clear()
        # Not wait_for: in Python 3.11 it swallows a cancellation that comes together with the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1_000):
                await self._work.wait()

    def _pass_time(self, now_ms: int) -> None:
        """Gaps that are old enough are skipped (SPEC 9.5), expired messages removed (SPEC 9.7), each when it is due."""
        if now_ms >= self._sweep_at_ms:
            self.inbox.sweep(now_ms=now_ms)
            self._sweep_at_ms = now_ms + self._settings.outbox.sweep_every_ms
        wake_ms = self.inbox.next_wake_ms()
        if wake_ms is None or now_ms < wake_ms:
            return
        with self._database.transaction():
            for arrival in self.inbox.pass_time(now_ms=now_ms):
                self._follow(arrival, now_ms)
        self.inbox.take_changes()

    def _follow(self, arrival: Arrival, now_ms: int) -> None:
        """What is asked for stays in the journal: this sessionless form has nobody who could answer it yet."""
        for control in arrival.control:
            self._believe(control.body, control.sender, now_ms)

    def _queue_acks(self, owed: OwedBatch, *, lane: str, now_ms: int) -> None:
        sender = owed.sender
        with self._database.transaction():
            ids = self.inbox.take_owed(sender, limit=self._settings.acks.max_ids, type_=owed.type)
            body = receipts(self.identity, ids, writer=sender, now_ms=now_ms, ack_type=owed.type)
            message_id = mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES))
            self._enqueue(message_id, self._contacts[sender], body, lane=lane, kind=Kind.CONTROL, ttl_s=None)
        self._work.set()

    def _believe(self, body: bytes, reader: Address, now_ms: int) -> None:
        """Receipts from the reader of our messages end their outbox entries; a forgery is recorded."""
        try:
            batch = checked_receipts(body, reader=reader, writer=self.identity.address)
        except RestanteError as error:
            self.journal.append(JournalKind.SECURITY, at_ms=now_ms, code=error.code)
            return
        event = ReadAcked() if batch.type is AckType.READ else ReceiptAcked()
        for message_id in batch.message_ids:
            self.outbox.apply(message_id, event, now_ms=now_ms)

    def _enqueue(
        self, message_id: MessageId, reader: ContactCard, body: bytes, *, lane: str, kind: Kind, ttl_s: int | None
    ) -> None:
        now_ms = self._clock.now_ms()
        ttl_s = resolve_ttl_s(kind, ttl_s)
        rule = KIND_RULES[kind]
        session, sequence = self.outbox.next_sequence(
            reader.address, new_session=SessionId(self._entropy.draw(SESSION_ID_BYTES))
        )
        plaintext = write(
            Draft(
                message_id=message_id,
                session_id=session,
                sequence=sequence,
                kind=kind,
                body=body,
                created_at_ms=now_ms,
                ttl_s=ttl_s,
            ),
            writer=self.identity,
            reader=reader,
        )
        expires_at_ms = transport_expiry_ms(ttl_type=rule.ttl_type, created_at_ms=now_ms, ttl_s=ttl_s)
        envelope = enclose(plaintext, kind=kind, reader=reader, expires_at_ms=expires_at_ms, now_ms=now_ms)
        nonce = self._entropy.draw(NONCE_BYTES)
        self.outbox.accept(
            OutboxEntry(
                message_id=message_id,
                route=Route.RELAY,
                lane=lane,
                kind=kind,
                payload=envelope,
                sealed_plaintext=self._seal.close(plaintext, nonce=nonce, context=message_id),
                priority=rule.priority,
                created_at_ms=now_ms,
                queued_at_ms=now_ms,
                ttl_s=ttl_s,
                expires_at_ms=expires_at_ms,
                next_attempt_at_ms=now_ms,
            ),
            sealed_hash=payload_hash(decode_envelope(envelope).sealed),
            session_tag=session_tag(self.identity.tag_secret, session),
            sequence=sequence,
            now_ms=now_ms,
        )
