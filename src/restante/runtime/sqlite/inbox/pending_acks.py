"""Acknowledgements that are owed to senders, until the transaction that queues them (SPEC 1.3, 10.5)."""

from dataclasses import dataclass
from typing import Any, Final

from restante.model.ids import Address, MessageId
from restante.policy.ack_batching import AckBatching, batch_due_at_ms
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.wire.acks import AckType

_SQL: Final = load_queries("inbox/pending_acks")
_OWE: Final = _SQL["owe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedBatch:
    """Acknowledgements of one type to one sender, and when they are to leave."""

    sender: Address
    type: AckType
    due_at_ms: int


class PendingAcks:
    def __init__(self, database: Database) -> None:
        self._database = database

    def owe(self, number: int, type_: AckType, sender: Address, message_id: MessageId, *, now_ms: int) -> None:
        self._database.defer(_OWE, (number, type_, sender, message_id, now_ms))

    def batches(self, batching: AckBatching) -> list[OwedBatch]:
        """To whom something is owed, and when each batch is due."""
        return [
            OwedBatch(sender=Address(sender), type=AckType(type_), due_at_ms=due)
            for sender, type_, count, oldest in self._database.rows(_SQL["owed"])
            if (due := batch_due_at_ms(batching, count=count, oldest_at_ms=oldest)) is not None
        ]

    def take(self, sender: Address, type_: AckType, *, limit: int) -> tuple[MessageId, ...]:
        """The ids of one batch, each once, oldest first; from now on they are not owed."""
        return _ids(self._database.rows(_SQL["take"], sender, type_, limit))

    def first(self, sender: Address, type_: AckType, *, limit: int) -> tuple[MessageId, ...]:
        """What `take` would give."""
        return _ids(self._database.rows(_SQL["first_owed"], sender, type_, limit))


def _ids(rows: list[tuple[Any, ...]]) -> tuple[MessageId, ...]:
    return tuple(dict.fromkeys(MessageId(message_id) for _, message_id in sorted(rows)))
