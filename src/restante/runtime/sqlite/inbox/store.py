"""The receiving side in SQLite: what arrived, what the application may see of it, and what is owed (SPEC 9, 10).

Arrivals go through batches (runtime/sqlite/inbox/batch), which share a transaction; alone, one is a batch of one.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from restante.core.decrypted_messages import DecryptedMessage
from restante.crypto.journal_tags import session_tag
from restante.crypto.storage_seal import StorageSeal
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError
from restante.model.ids import Address, MessageId, SessionId
from restante.model.inbox_entry import HeldBack, InboxEntry
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, TtlType
from restante.policy.ack_batching import AckBatching
from restante.policy.settings import Settings
from restante.policy.ttl import expiry_ms
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.inbox.batch import ReceiveBatch, Tables
from restante.runtime.sqlite.inbox.dedup_index import DedupIndex
from restante.runtime.sqlite.inbox.messages import MessageTable
from restante.runtime.sqlite.inbox.pending_acks import OwedBatch, PendingAcks
from restante.runtime.sqlite.inbox.reorder_state import SessionTable
from restante.runtime.sqlite.inbox.results import Asked, InboxEvent, ReceiveResult
from restante.wire.acks import AckType

SWEEP_PAGE: Final = 1_000
_SQL: Final = load_queries("inbox/store")


class SqliteInbox:
    """Messages that arrived for one client. Methods may be called inside a wider transaction."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        settings: Settings,
        *,
        seal: StorageSeal,
        entropy: Entropy,
        tag_secret: bytes,
    ) -> None:
        self._database = database
        self._journal = journal
        self._seal = seal
        self._tag_secret = tag_secret
        self._sessions = SessionTable(database, settings.order)
        self._owed = PendingAcks(database)
        self._tables = Tables(
            database=database,
            journal=journal,
            seen=DedupIndex(database, settings.dedup),
            owed=self._owed,
            sessions=self._sessions,
            messages=MessageTable(database, seal, entropy),
            tag_secret=tag_secret,
            limits=settings.order,
            entropy=entropy,
        )
        self._changes: list[InboxEvent] = []
        database.on_invalidate(self._changes.clear)
        self._is_in_batch = False

    @contextmanager
    def batch(self, *, now_ms: int) -> Iterator[ReceiveBatch]:
        """Arrivals that share a transaction; nothing of them is kept when one of them raises. One at a time."""
        if self._is_in_batch:
            raise LocalProtocolError("a batch is under way: end it first, or go on in it")
        self._is_in_batch = True
        try:
            with self._database.transaction():
                batch = ReceiveBatch(self._tables, now_ms=now_ms)
                yield batch
                batch.finish()
        finally:
            self._is_in_batch = False
        self._changes += batch.changes

    def take_changes(self) -> list[InboxEvent]:
        """What happened since this was last asked; to be told only after the commit."""
        changes = self._changes[:]
        self._changes.clear()
        return changes

    def receive(self, opened: DecryptedMessage, *, server_timestamp_ms: int, now_ms: int) -> ReceiveResult:
        """Receive one arrival that is decrypted already."""
        with self.batch(now_ms=now_ms) as batch:
            return batch.receive_decrypted(opened, server_timestamp_ms=server_timestamp_ms)

    def pass_time(self, *, now_ms: int) -> list[Asked]:
        """Skip the gaps that are old enough (SPEC 9.5); return what is to be requested again."""
        with self.batch(now_ms=now_ms) as batch:
            return [
                ask
                for sender, session_id in self._sessions.due(now_ms=now_ms)
                for ask in batch.pass_time(sender, session_id)
            ]

    def next_wake_ms(self) -> int | None:
        """When `pass_time` has something to do; None while nothing waits."""
        return self._sessions.next_wake_ms()

    def released(self, *, after: int, limit: int, now_ms: int) -> list[tuple[int, InboxEntry]]:
        """Messages for the application, in order, each with its place; what has expired is not among them."""
        rows = self._database.run(_SQL["messages_after"], after=after, limit=limit, now_ms=now_ms)
        return [self._entry(row) for row in rows]

    def held_back(self) -> list[HeldBack]:
        """Return, for each session with a gap, how many messages wait behind it and until when (SPEC 9.5)."""
        rows = self._database.run(_SQL["held_back"])
        return [HeldBack(sender=Address(sender), messages=count, until_ms=at_ms) for sender, count, at_ms in rows]

    def first_unacked(self) -> int | None:
        """Return the place of the first message that the application has not processed; None if there is none."""
        [(place,)] = self._database.rows(_SQL["first_unacked"])
        return None if place is None else int(place)

    def mark_acked(self, places: Sequence[int], *, now_ms: int) -> None:
        """Record that the application has processed these messages (SPEC 9.8): they are not shown again."""
        self._database.run(_SQL["mark_acked"], places=json.dumps(places), now_ms=now_ms)

    def mark_read(self, place: int, *, now_ms: int, acknowledge: bool = False) -> bool:
        """Record that the message is shown: a relative TTL starts (SPEC 2.6). Only the first time counts.

        With `acknowledge` a READ ack to its sender is queued (SPEC 10.1). Return False if there is no unread message
        at that place.
        """
        with self.batch(now_ms=now_ms) as batch:
            rows = self._database.run(_SQL["unread"], place=place, now_ms=now_ms)
            for message_id, sender, ttl_type, ttl_s in rows:
                self._database.run(_SQL["mark_read"], place=place, now_ms=now_ms)
                if ttl_type == TtlType.RELATIVE:
                    ends_at_ms = expiry_ms(
                        ttl_type=TtlType.RELATIVE, created_at_ms=0, ttl_s=ttl_s, first_read_at_ms=now_ms
                    )
                    self._database.run(_SQL["set_expiry"], place=place, expires_at_ms=ends_at_ms)
                if acknowledge:
                    batch.owe_read(Address(sender), MessageId(message_id))
        return bool(rows)

    def sweep(self, *, now_ms: int) -> int:
        """Remove what has expired (SPEC 9.7), and forget arrivals past their window; how many messages went."""
        removed = 0
        with self.batch(now_ms=now_ms) as batch:
            batch.forget_old()
            while rows := self._database.run(_SQL["remove_expired"], now_ms=now_ms, limit=SWEEP_PAGE):
                removed += len(rows)
                for message_id, session_id, sequence, kind, received_at_ms in sorted(rows):
                    self._journal.append(
                        JournalKind.INBOX_EXPIRED,
                        at_ms=now_ms,
                        message_id=MessageId(message_id),
                        session_tag=session_tag(self._tag_secret, SessionId(session_id)),
                        sequence=sequence,
                        message_kind=Kind(kind),
                        code=Code.TTL_EXPIRED,
                        latency_ms=max(0, now_ms - received_at_ms),
                    )
        return removed

    def owed(self, batching: AckBatching, *, now_ms: int) -> list[OwedBatch]:
        """Return to whom acknowledgements are pending, and when each batch is due (SPEC 10.5)."""
        return self._owed.batches(batching, now_ms=now_ms)

    def next_delayed_ack_ms(self, *, now_ms: int) -> int | None:
        """Return when the acknowledgement of a duplicate becomes due (SPEC 10.3)."""
        return self._owed.next_due_ms(now_ms=now_ms)

    def first_owed(
        self, sender: Address, *, limit: int, now_ms: int, type_: AckType = AckType.RECEIPT
    ) -> tuple[MessageId, ...]:
        """Return what `take_owed` would return."""
        return self._owed.first(sender, type_, limit=limit, now_ms=now_ms)

    def take_owed(
        self, sender: Address, *, limit: int, now_ms: int, type_: AckType = AckType.RECEIPT
    ) -> tuple[MessageId, ...]:
        """Return the acknowledgements of one batch and delete them, in the transaction that queues them."""
        return self._owed.take(sender, type_, limit=limit, now_ms=now_ms)

    def _entry(self, row: tuple[Any, ...]) -> tuple[int, InboxEntry]:
        """A row of `messages_after`. STRICT tables make the types of its columns certain."""
        (place, message_id, sender, session, sequence, kind, sealed, received_at_ms, server_timestamp_ms,
         ack_sent, first_read_at_ms, acked_at_ms, expires_at_ms, is_late) = row  # fmt: skip
        return place, InboxEntry(
            message_id=MessageId(message_id),
            sender=Address(sender),
            session_id=SessionId(session),
            sequence_number=sequence,
            kind=Kind(kind),
            plaintext=self._seal.unseal(sealed, context=message_id),
            received_at_ms=received_at_ms,
            server_timestamp_ms=server_timestamp_ms,
            ack_sent=bool(ack_sent),
            first_read_at_ms=first_read_at_ms,
            acked_at_ms=acked_at_ms,
            expires_at_ms=expires_at_ms,
            is_late=bool(is_late),
        )
