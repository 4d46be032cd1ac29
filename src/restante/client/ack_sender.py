"""Signs pending acks and queues them, in the transaction that deletes them from the inbox (SPEC 10.5)."""

from restante.client.contacts import ContactBook
from restante.client.outgoing import OutgoingMessages
from restante.core.signed_acks import sign_receipts
from restante.crypto.identity import Identity
from restante.model.ids import Address
from restante.model.kinds import Kind
from restante.policy.ack_batching import AckBatching
from restante.runtime.sqlite.inbox.store import SqliteInbox
from restante.wire.acks import AckType


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
        next_ms = self._inbox.next_delayed_ack_ms(now_ms=now_ms)
        for owed in self._inbox.owed(self._batching, now_ms=now_ms):
            if owed.due_at_ms > now_ms:
                next_ms = owed.due_at_ms if next_ms is None else min(next_ms, owed.due_at_ms)
            else:
                self._queue(owed.sender, owed.type, now_ms)
        return next_ms

    def _queue(self, sender: Address, type_: AckType, now_ms: int) -> None:
        contact = self._contacts.get(sender)
        if contact is None:
            return  # no contact any more: it can't be encrypted
        limit = self._batching.max_ids
        while ids := self._inbox.first_owed(sender, limit=limit, now_ms=now_ms, type_=type_):
            body = sign_receipts(self._identity, ids, sender=sender, now_ms=now_ms, ack_type=type_)
            self._outgoing.write(contact, body, kind=Kind.CONTROL, now_ms=now_ms)
            # After it is queued: if the outbox is full, they stay pending.
            self._inbox.take_owed(sender, limit=limit, now_ms=now_ms, type_=type_)
