"""What can happen to an outbox entry, and what the host must then do. Data only; core/outbox decides."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from restante.model.error_codes import Code
from restante.model.ids import NodeId
from restante.model.journal import JournalKind
from restante.model.outbox_entry import DeadLetter
from restante.policy.failures import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A drain claimed the entry for one try."""

    owner: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class TransmitSucceeded:
    """The next hop accepted it and said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransmitFailed:
    """The try of `owner` failed, or its answer never came."""

    owner: str
    failure: Failure
    retry_after_ms: int | None = None
    dice: float = 0.0


@dataclass(frozen=True, slots=True)
class DeliveryAcked:
    """A storing node signed that it holds the message; `node` is who, where that is known (SPEC 7.8)."""

    node: NodeId | None = None


@dataclass(frozen=True, slots=True)
class ReceiptAcked:
    """The recipient signed that it has the message."""


@dataclass(frozen=True, slots=True)
class ReadAcked:
    """The recipient signed that the message was read."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A sweep looked at the entry: leases, queue time and expiry are judged anew."""


@dataclass(frozen=True, slots=True)
class CapacityExceeded:
    """Its lane is over its limit and this entry is the oldest."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The user took it back."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A dead letter is to be tried again: because somebody asked, or by itself, once a day (SPEC 5.3, 5.4)."""

    by_itself: bool = False


@dataclass(frozen=True, slots=True)
class RetransmitRequested:
    """Its reader misses it, or it was sealed anew for another session: what was sent before will not do."""


Event = (
    Leased
    | TransmitSucceeded
    | TransmitFailed
    | DeliveryAcked
    | ReceiptAcked
    | ReadAcked
    | TimePassed
    | CapacityExceeded
    | Cancelled
    | Recovered
    | RetransmitRequested
)


class OutboxEventType(StrEnum):
    """The events an application can listen to (SPEC 3.12)."""

    QUEUED = "queued"
    SENT = "sent"
    DELIVERY_CONFIRMED = "delivery_confirmed"
    DELIVERED = "delivered"
    READ = "read"
    RETRIED = "retried"
    EXPIRED = "expired"
    EVICTED = "evicted"
    DEAD_LETTERED = "dead_lettered"
    RECOVERED = "recovered"
    SECURITY = "security"


class AppendJournalEvent(NamedTuple):
    """Write this fact to the journal in the transaction of the change (SPEC 1.4)."""

    kind: JournalKind
    code: str | None = None
    latency_ms: int | None = None
    node: NodeId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent:
    """Tell the application, after the commit."""

    notice: OutboxEventType
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDeadLetter:
    """Keep this dead letter (or payload-free tombstone) in the entry's place."""

    letter: DeadLetter


@dataclass(frozen=True, slots=True)
class DeletePayload:
    """The entry has ended: its payload may go."""


@dataclass(frozen=True, slots=True)
class ResetSession:
    """The session with this recipient is broken; agree on a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reencrypt:
    """Seal the locally kept plaintext anew before the next try (SPEC 4.4, E008 and E009)."""

    code: Code


Effect = AppendJournalEvent | EmitEvent | StoreDeadLetter | DeletePayload | ResetSession | Reencrypt
