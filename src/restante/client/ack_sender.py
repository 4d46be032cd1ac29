"""Signs pending acks and queues them, in the transaction that deletes them from the inbox (SPEC 10.5)."""

from typing import Final

from restante.client.contacts import ContactBook
from restante.client.outgoing import OutgoingMessages
from restante.core.signed_acks import sign_receipts
from restante.crypto.identity import Identity
from restante.model.ids import Address
from restante.model.kinds import Kind
from restante.policy.ack_batching import AckBatching
from restante.runtime.sqlite.inbox.store import SqliteInbox
from restante.wire.acks import AckType

_TYPES: Final = (AckType.RECEIPT, AckType.READ)


class AckSender:
    def __init__(
        self,
        identity: Identity,
        *,
        contacts: ContactBook,
        outgoing: OutgoingMessages,
        inbox: SqliteInbox,
        batching: AckBatching,
    ) -> None:
        self._identity = identity
        self._contacts = contacts
        self._outgoing = outgoing
        self._inbox = inbox
        self._batching = batching

    def queue_due_batches(self, *, now_ms: int) -> int | None:
        """Queue the batches that are due and return when the next one is."""
        next_ms = None
        for owed in self._inbox.owed(self._batching):
            if owed.due_at_ms > now_ms:
                next_ms = owed.due_at_ms if next_ms is None else min(next_ms, owed.due_at_ms)
            else:
                self._queue(owed.sender, owed.type, now_ms)
        return next_ms

    def queue_all_for(self, sender: Address, *, now_ms: int) -> None:
        """Queue all pending acks before the session is replaced: the sender re-encrypts whatever has no receipt, and a
        later receipt would leave an unused sequence number."""
        for type_ in _TYPES:
            self._queue(sender, type_, now_ms)

    def _queue(self, sender: Address, type_: AckType, now_ms: int) -> None:
        contact = self._contacts.get(sender)
        if contact is None:
            return  # no contact any more: it can't be encrypted
        while ids := self._inbox.first_owed(sender, limit=self._batching.max_ids, type_=type_):
            body = sign_receipts(self._identity, ids, writer=sender, now_ms=now_ms, ack_type=type_)
            self._outgoing.write(contact, body, kind=Kind.CONTROL, now_ms=now_ms)
            # After it is queued: if the outbox is full, they stay pending.
            self._inbox.take_owed(sender, limit=self._batching.max_ids, type_=type_)
