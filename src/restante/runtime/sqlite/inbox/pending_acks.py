"""Acknowledgements pending for senders, until the transaction that queues them (SPEC 1.3, 10.3, 10.5)."""

from dataclasses import dataclass
from typing import Any, Final

from restante.model.ids import Address, MessageId
from restante.policy.ack_batching import AGAIN_DELAY_MS, AckBatching, batch_due_at_ms
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.wire.acks import AckType

_SQL: Final = load_queries("inbox/pending_acks")
_ADD: Final = _SQL["add"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedBatch:
    """Acknowledgements of one type to one sender, and when they leave."""

    sender: Address
    type: AckType
    due_at_ms: int


class PendingAcks:
    def __init__(self, database: Database) -> None:
        self._database = database

    def owe(self, number: int, type_: AckType, sender: Address, message_id: MessageId, *, since_ms: int) -> None:
        """Add an acknowledgement. One with `since_ms` in the future stays out of every batch until then."""
        self._database.defer(_ADD, (number, type_, sender, message_id, since_ms))

    def batches(self, batching: AckBatching, *, now_ms: int) -> list[OwedBatch]:
        """Return to whom acknowledgements are pending, and when each batch is due."""
        return [
            OwedBatch(sender=Address(sender), type=AckType(type_), due_at_ms=due)
            for sender, type_, count, oldest in self._database.rows(_SQL["pending"], now_ms, now_ms + AGAIN_DELAY_MS)
            if (due := batch_due_at_ms(batching, count=count, oldest_at_ms=oldest)) is not None
        ]

    def next_due_ms(self, *, now_ms: int) -> int | None:
        """Return when the next delayed acknowledgement may leave."""
        [(at_ms,)] = self._database.rows(_SQL["next_due"], now_ms, now_ms + AGAIN_DELAY_MS)
        return None if at_ms is None else int(at_ms)

    def take(self, sender: Address, type_: AckType, *, limit: int, now_ms: int) -> tuple[MessageId, ...]:
        """Return the ids of one batch, each once, oldest first, and delete them."""
        return _ids(self._database.rows(_SQL["take"], sender, type_, now_ms, now_ms + AGAIN_DELAY_MS, limit))

    def first(self, sender: Address, type_: AckType, *, limit: int, now_ms: int) -> tuple[MessageId, ...]:
        """Return what `take` would return."""
        return _ids(self._database.rows(_SQL["first"], sender, type_, now_ms, now_ms + AGAIN_DELAY_MS, limit))


def _ids(rows: list[tuple[Any, ...]]) -> tuple[MessageId, ...]:
    return tuple(dict.fromkeys(MessageId(message_id) for _, message_id in sorted(rows)))
