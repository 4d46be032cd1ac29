"""Outbox entries and dead letters (SPEC 3.1, 5.1)."""

from dataclasses import dataclass
from typing import NamedTuple

from restante.model.error_codes import Code
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.states import Confirmation, DeadCategory, DeadReason, Route, State


class Lease(NamedTuple):
    """Who is sending an entry and until when (SPEC 3.5)."""

    owner: str
    until_ms: int


class OutboxEntry(NamedTuple):
    """One message to one destination. A tuple, because each of its steps makes a changed copy.

    `payload` holds the bytes that leave: sealed bytes for mail. It is empty until the first lease encrypts the entry
    from `sealed_plaintext`. `queue_number` orders entries by acceptance; `place` counts them in their lane.
    `queued_at_ms` is when the entry last entered the queue, by `send` or by recovery. `attempts` are those that count
    against the maximum; `failures` are all that failed in a row, which set the next delay. `times_stored` counts how
    often the next hop accepted it. `first_dead_at_ms` is when it first became a dead letter since a user last
    recovered it: automatic retries do not prolong how long it is kept.
    """

    message_id: MessageId
    route: Route
    lane: str
    kind: Kind
    payload: bytes
    sealed_plaintext: bytes
    priority: Priority
    created_at_ms: int
    queued_at_ms: int
    ttl_s: int
    expires_at_ms: int
    next_attempt_at_ms: int
    queue_number: int = 0
    place: int = 0
    attempts: int = 0
    failures: int = 0
    state: State = State.PENDING
    lease: Lease | None = None
    last_error: Code | None = None
    first_attempt_at_ms: int | None = None
    last_attempt_at_ms: int | None = None
    first_dead_at_ms: int | None = None
    times_stored: int = 0
    has_failed_to_encrypt: bool = False
    confirmation: Confirmation = Confirmation.NONE

    @property
    def was_sent(self) -> bool:
        """Return whether the next hop has accepted the entry at least once."""
        return self.times_stored > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An entry that was given up, with the reason and until when it is kept. A tombstone has no payload."""

    entry: OutboxEntry
    reason: DeadReason
    code: Code | None
    category: DeadCategory
    total_attempts: int
    first_attempt_at_ms: int | None
    last_attempt_at_ms: int | None
    moved_at_ms: int
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEntry:
    """An entry in flight without its body; `is_blocked` when an earlier one of its lane must leave first."""

    entry: OutboxEntry
    size_bytes: int
    is_blocked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedEntry:
    """What is kept of a message for 30 days after its end (SPEC 3.13)."""

    message_id: MessageId
    kind: Kind
    priority: Priority
    state: State
    confirmation: Confirmation
    ended_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDeadLetter:
    """A dead letter as its table stores it, without its body."""

    entry: OutboxEntry
    body_id: int
    size_bytes: int
    reason: DeadReason
    code: Code | None
    category: DeadCategory
    moved_at_ms: int
    expires_at_ms: int
    retry_at_ms: int | None
