"""The records that are kept: outbox entries, dead letters, inbox entries (SPEC 3.1, 5.1, 9.6)."""

from dataclasses import dataclass
from typing import NamedTuple, Self, TypedDict, Unpack

from restante.model.codes import Code
from restante.model.ids import Address, MessageId, SessionId
from restante.model.kinds import Kind, Priority
from restante.model.states import Confirmation, DeadCategory, DeadReason, DropReason, Route, State


class Lease(NamedTuple):
    """Who is sending an entry and until when that claim holds (SPEC 3.5)."""

    owner: str
    until_ms: int


_new = object.__new__
_set = object.__setattr__


class EntryChanges(TypedDict, total=False):
    """The fields in which an outbox entry may differ from another, or from itself a step later: all of them."""

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
    """One message on its way to one destination.

    `insertion` breaks ties of `created_at_ms`; `queued_at_ms` is when it last entered the queue, by `send` or by
    recovery, and is what its longest unsent wait is counted from. `first_buried_at_ms` is when it first became a dead
    letter since somebody last recovered it by hand: automatic retries must not prolong how long it is kept.
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
        """The same entry with these fields changed.

        Every step of a message's life makes one, and `dataclasses.replace` takes as long as the step itself: it is
        why this class has no slots.
        """
        changed = _new(type(self))
        _set(changed, "__dict__", self.__dict__ | changes)
        return changed

    @classmethod
    def filled(cls, fields: EntryChanges) -> Self:
        """The entry that has these fields, which must be all of them: for rows, which were checked when written."""
        made = _new(cls)
        _set(made, "__dict__", fields)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An entry that was given up, whole, with why and until when it is kept. A tombstone has no payload."""

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
class InboxEntry:
    """A message that arrived and waits for the application (SPEC 9.6).

    `is_late` when later messages of its session were handed on before it (SPEC 9.5).
    """

    message_id: MessageId
    sender: Address
    session_id: SessionId
    sequence_number: int
    kind: Kind
    plaintext: bytes
    received_at_ms: int
    server_timestamp_ms: int
    ack_sent: bool = False
    first_read_at_ms: int | None = None
    expires_at_ms: int | None = None
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """The destination took it at once."""


@dataclass(frozen=True, slots=True)
class Queued:
    """It is on disk and will be sent."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """It was not taken, for this reason."""

    reason: DropReason


Outcome = Sent | Queued | Dropped


class Delivery(NamedTuple):
    """One destination of a send: the id its message got there, and what became of it."""

    destination: str
    message_id: MessageId
    outcome: Outcome


class Receipt(NamedTuple):
    """What became of a send, destination by destination (SPEC 3.7)."""

    deliveries: tuple[Delivery, ...]

    @property
    def message_id(self) -> MessageId:
        """The id at the first destination: all there is to know of a send to one."""
        return self.deliveries[0].message_id

    @property
    def outcomes(self) -> tuple[tuple[str, Outcome], ...]:
        return tuple((delivery.destination, delivery.outcome) for delivery in self.deliveries)
