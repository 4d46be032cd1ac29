"""Outbox entries and dead letters (SPEC 3.1, 5.1)."""

from dataclasses import dataclass
from typing import NamedTuple, Self, TypedDict, Unpack

from restante.model.error_codes import Code
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.states import Confirmation, DeadCategory, DeadReason, Route, State


class Lease(NamedTuple):
    """Who is sending an entry, and until when (SPEC 3.5)."""

    owner: str
    until_ms: int


_new = object.__new__
_set = object.__setattr__


class EntryChanges(TypedDict, total=False):
    """All fields of an outbox entry, each optional, as keyword arguments of `but`."""

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
    insertion: int
    attempts: int
    state: State
    lease: Lease | None
    last_error: Code | None
    first_attempt_at_ms: int | None
    last_attempt_at_ms: int | None
    first_buried_at_ms: int | None
    was_sent: bool
    reencrypted: bool
    confirmation: Confirmation


@dataclass(frozen=True, kw_only=True)
class OutboxEntry:
    """One message to one destination.

    `insertion` breaks ties of `created_at_ms`. `queued_at_ms` is when it last entered the queue, by `send` or by
    recovery; its longest unsent wait is counted from then. `first_buried_at_ms` is when it first became a dead letter
    since the user last recovered it: automatic retries must not prolong its retention.
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
    insertion: int = 0
    attempts: int = 0
    state: State = State.PENDING
    lease: Lease | None = None
    last_error: Code | None = None
    first_attempt_at_ms: int | None = None
    last_attempt_at_ms: int | None = None
    first_buried_at_ms: int | None = None
    was_sent: bool = False
    reencrypted: bool = False
    confirmation: Confirmation = Confirmation.NONE

    def but(self, **changes: Unpack[EntryChanges]) -> Self:
        """Return the entry with these fields changed.

        Every step makes one, and `dataclasses.replace` takes as long as the step itself. That is why this class has no
        slots.
        """
        changed = _new(type(self))
        _set(changed, "__dict__", self.__dict__ | changes)
        return changed

    @classmethod
    def filled(cls, fields: EntryChanges) -> Self:
        """Return the entry with these fields, which must be all of them. Rows need no further check: they were checked
        when written."""
        made = _new(cls)
        _set(made, "__dict__", fields)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An entry that was given up, with the reason and its retention. A tombstone has no payload."""

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
    """An entry in flight without its body; `is_behind` when an earlier one of its FIFO lane must leave first."""

    entry: OutboxEntry
    size_bytes: int
    is_behind: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredEntry:
    """What the delivered index stores about a message (SPEC 3.13)."""

    message_id: MessageId
    kind: Kind
    priority: Priority
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
