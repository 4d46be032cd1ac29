"""The events of the outbox machine and the effects that its host carries out. Data only; core/outbox decides."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from restante.model.ids import NodeId
from restante.model.journal import JournalKind, StorageReceipt
from restante.model.outbox_entry import DeadLetter
from restante.policy.failures import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A drain leased the entry for one attempt."""

    owner: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class TransmitSucceeded:
    """The next hop accepted the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransmitFailed:
    """The attempt of `owner` failed, or its answer never came."""

    owner: str
    failure: Failure
    retry_after_ms: int | None = None
    dice: float = 0.0
    reached: bool = True
    """False if no connection to a node of the place was made."""


@dataclass(frozen=True, slots=True)
class DeliveryAcked:
    """A node signed that it stores the message; `node` is its id where the carrier knows it (SPEC 7.8)."""

    node: NodeId | None = None
    receipt: StorageReceipt | None = None


@dataclass(frozen=True, slots=True)
class ReceiptAcked:
    """The recipient signed that it has the message."""


@dataclass(frozen=True, slots=True)
class ReadAcked:
    """The recipient signed that the message was read."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A sweep checks lease, expiry and queue time.

    `connected_ms` is how long the entry has waited unsent while its lane was connected (SPEC 2.2). `dead_owner` held
    leases and is known to be dead: they are over (SPEC 3.5).
    """

    connected_ms: int = 0
    dead_owner: str | None = None


@dataclass(frozen=True, slots=True)
class CapacityExceeded:
    """The upstream lane is over its limit and this entry is the oldest."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The user cancelled the message."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A dead letter goes back into the queue, on a user's request or automatically (SPEC 5.3, 5.4)."""

    is_automatic: bool = False


@dataclass(frozen=True, slots=True)
class RetransmitRequested:
    """The recipient requested a retransmission, or the message was re-encrypted for another session: send it again."""


@dataclass(frozen=True, slots=True)
class RecipientReached:
    """Something else to the same recipient was stored: a wait for this recipient ends (SPEC 3.4)."""


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
    | RecipientReached
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
    """Append this event to the journal in the transaction of the change (SPEC 1.4)."""

    kind: JournalKind
    code: str | None = None
    latency_ms: int | None = None
    node: NodeId | None = None
    receipt: StorageReceipt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent:
    """Emit this event to the application after the commit."""

    notice: OutboxEventType
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDeadLetter:
    """Store this dead letter, or payload-free tombstone, in place of the entry."""

    letter: DeadLetter


@dataclass(frozen=True, slots=True)
class DeletePayload:
    """Delete the payload: the entry has ended."""


@dataclass(frozen=True, slots=True)
class ResetSession:
    """Delete the session with this recipient; the next lease encrypts in another (SPEC 4.4, E008)."""


Effect = AppendJournalEvent | EmitEvent | StoreDeadLetter | DeletePayload | ResetSession
