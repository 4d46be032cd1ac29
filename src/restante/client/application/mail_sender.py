"""Accepts mail of the application: checks it, waits for space if need be, and writes it to the outbox."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from restante.client.application.send_pacing import accepted_in_parts, in_batches
from restante.client.application.sent_message import DeliveryWaiters, SentMessage
from restante.client.composition import ClientParts
from restante.client.contacts import Contact, ContactBook
from restante.client.space_queue import SpaceQueue
from restante.core.outbox_events import OutboxEventType
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError
from restante.model.ids import MESSAGE_ID_BYTES, Address, MessageId, mint_message_id
from restante.model.kinds import Kind
from restante.model.send_receipt import Delivery, Dropped, Queued, SendReceipt
from restante.policy.eligibility import classify
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent

SEND_BATCH: Final = 64  # messages of `send_many` that share a transaction
Recipient = str | Address | Contact
Body = str | bytes


class MailSender:
    """The sending half of a client."""

    def __init__(
        self,
        parts: ClientParts,
        *,
        contacts: ContactBook,
        clock: Clock,
        entropy: Entropy,
        refresh: Callable[[Contact], Awaitable[bool]],
    ) -> None:
        """`refresh` looks for newer prekeys of a contact, and returns whether it found any."""
        self._parts = parts
        self._contacts = contacts
        self._clock = clock
        self._entropy = entropy
        self._refresh = refresh
        self._space = SpaceQueue()
        self._deliveries = DeliveryWaiters(parts.outbox.status)

    async def send(
        self, to: Recipient, body: Body, *, kind: str, ttl_s: int | None, wait: bool, deadline_s: float
    ) -> SentMessage:
        [sent] = await self._accept(
            self._contact(to), [_content(body)], kind=kind, ttl_s=ttl_s, wait=wait, deadline_s=deadline_s
        )
        return sent

    async def send_many(
        self,
        to: Recipient,
        bodies: Iterable[Body] | AsyncIterable[Body],
        *,
        kind: str,
        ttl_s: int | None,
        wait: bool,
        deadline_s: float,
    ) -> list[SentMessage]:
        contact = self._contact(to)
        sent: list[SentMessage] = []

        async def accept(batch: list[Body], may_wait: bool) -> list[SentMessage]:
            contents = [_content(body) for body in batch]
            return await self._accept(
                contact, contents, kind=kind, ttl_s=ttl_s, wait=wait and may_wait, deadline_s=deadline_s
            )

        try:
            async for batch in in_batches(bodies, size=SEND_BATCH):
                async for accepted in accepted_in_parts(batch, accept):
                    sent += accepted
        except RestanteError as problem:
            problem.accepted = len(sent)
            raise
        return sent

    def notice(self, event: OutboxEvent) -> None:
        """Wake senders that wait for space, and those that wait for this message to be delivered."""
        self._deliveries.notice(event)
        if event.notice is not OutboxEventType.QUEUED:
            self._space.wake()

    async def _accept(
        self, to: Contact, contents: list[bytes], *, kind: str, ttl_s: int | None, wait: bool, deadline_s: float
    ) -> list[SentMessage]:
        """Write all of them in one commit, or none."""
        outcome = _classify(kind)
        ids = [mint_message_id(self._entropy.draw(MESSAGE_ID_BYTES)) for _ in contents]

        def write() -> None:
            now_ms = self._clock.now_ms()
            for content, message_id in zip(contents, ids, strict=True):
                self._parts.outgoing.write(
                    to, content, kind=Kind(kind), ttl_s=ttl_s, message_id=message_id, now_ms=now_ms
                )

        if isinstance(outcome, Queued):
            accept = partial(self._parts.file.run, write)
            lane = (to.route, to.lane)
            try:
                await (self._space.run(accept, [lane], deadline_s=deadline_s) if wait else accept())
            except RestanteError as problem:
                if problem.code is not Code.RECIPIENT_NOT_FOUND or not await self._has_newer_keys(to):
                    raise
                await accept()
        return [self._sent(to, message_id, outcome) for message_id in ids]

    async def _has_newer_keys(self, to: Contact) -> bool:
        try:
            return await self._refresh(to)
        except RestanteError:
            return False  # the caller raises why the known ones can't be used

    def _sent(self, to: Contact, message_id: MessageId, outcome: Queued | Dropped) -> SentMessage:
        delivery = Delivery(destination=to.lane, message_id=message_id, outcome=outcome)
        return SentMessage(SendReceipt(deliveries=(delivery,)), self._deliveries)

    def _contact(self, to: Recipient) -> Contact:
        """Return the contact with this name or address. The contact files are read again if it is not known yet."""
        try:
            return self._known(to)
        except RestanteError:
            if not self._contacts.refresh():
                raise
            return self._known(to)

    def _known(self, to: Recipient) -> Contact:
        if isinstance(to, str):
            return self._contacts.named(to)
        if isinstance(to, bytes):
            return self._contacts.expect(to)
        if isinstance(to, Contact):
            return self._contacts.expect(to.address)
        raise Malformed(f"a recipient is a contact's name or address, not {type(to).__name__}")


def _classify(kind: str) -> Queued | Dropped:
    """Decide whether the kind is queued (SPEC 2.4). There is no live path: relays store."""
    if not isinstance(kind, str):
        raise Malformed(f"the kind of a message is a text such as 'text', not {type(kind).__name__}")
    if kind == Kind.CONTROL:
        raise Malformed("control messages are Restante's own; choose another kind")
    decision = classify(kind, connected=False)
    return decision if isinstance(decision, Dropped) else Queued()


def _content(body: Body) -> bytes:
    if isinstance(body, str):
        try:
            return body.encode("utf-8")
        except UnicodeEncodeError:
            raise Malformed("the text contains a lone surrogate, which UTF-8 can't encode; send bytes") from None
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise Malformed(f"a message is text or bytes, not {type(body).__name__}")
