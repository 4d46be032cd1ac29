"""One journal event, as every component writes it (SPEC 13.1). It never contains an address."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypedDict

from restante.model.ids import EventId, MessageId, NodeId, PayloadHash, SessionTag, WriterId
from restante.model.kinds import Kind, Priority
from restante.model.states import State


class JournalKind(StrEnum):
    """What happened. Senders write the first group, nodes the second, recipients the third."""

    ACCEPTED = "accepted"
    ATTEMPTED = "attempted"
    SENT = "sent"
    RETRIED = "retried"
    RESENT = "resent"
    REENCRYPTED = "reencrypted"
    """Encrypted again for another session: other bytes with another hash under the same id (SPEC 8.7)."""
    DELIVERY_CONFIRMED = "delivery_confirmed"
    DELIVERED = "delivered"
    READ = "read"
    EXPIRED = "expired"
    EVICTED = "evicted"
    DEAD_LETTERED = "dead_lettered"
    RECOVERED = "recovered"
    DISCARDED = "discarded"

    STORED = "stored"
    REFUSED = "refused"
    SERVED = "served"
    DAMAGED = "damaged"
    DELETED = "deleted"
    REAPED = "reaped"
    NODE_STARTED = "node_started"

    ARRIVED = "arrived"
    RELEASED = "released"
    GAP_SKIPPED = "gap_skipped"
    RETRANSMIT_REQUESTED = "retransmit_requested"
    SESSION_CHANGED = "session_changed"
    """Messages to a contact are encrypted in another session from now on (SPEC 8.7)."""
    INBOX_EXPIRED = "inbox_expired"
    DEDUP_EVICTED = "dedup_evicted"
    MISSING_AT_NODE = "missing_at_node"
    SECURITY = "security"
    SCOREBOARD_APPLIED = "scoreboard_applied"


AUTOMATIC_RETRY: Final = "automatic_retry"
"""The code of a recovery that no user asked for: once a day, and when mail to the recipient is stored (SPEC 5.3)."""
REPAIRED: Final = "repaired"
"""The code of a `stored` event at a node that fetched the blob from a neighbour (SPEC 7.9)."""
ASKED_BY_FLEET: Final = "fleet"
"""The code of an event that was caused by an action of the fleet (SPEC 13.6)."""


STATE_AFTER: Final[dict[JournalKind, State]] = {
    JournalKind.ACCEPTED: State.PENDING,
    JournalKind.ATTEMPTED: State.SENDING,
    JournalKind.SENT: State.SENT,
    JournalKind.RETRIED: State.PENDING,
    JournalKind.DELIVERED: State.DELIVERED,
    JournalKind.EXPIRED: State.EXPIRED,
    JournalKind.EVICTED: State.EVICTED,
    JournalKind.DEAD_LETTERED: State.DEAD,
    JournalKind.RECOVERED: State.PENDING,
}
"""The state that a sender's event puts its message into. Kinds that are not listed leave the state unchanged (SPEC
1.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEvent:
    """One journal event. Fields that do not apply to its kind are None."""

    event_id: EventId
    at_ms: int
    kind: JournalKind
    writer: WriterId
    message_id: MessageId | None = None
    session_tag: SessionTag | None = None
    sequence: int | None = None
    payload_hash: PayloadHash | None = None
    size_bytes: int | None = None
    message_kind: Kind | None = None
    priority: Priority | None = None
    attempt: int | None = None
    code: str | None = None
    node: NodeId | None = None
    latency_ms: int | None = None
    ttl_s: int | None = None
    last_sequence: int | None = None
    previous_session_tag: SessionTag | None = None
    evidence_inner_hash: bytes | None = None
    evidence_path: bytes | None = None
    evidence_root: bytes | None = None
    evidence_at_ms: int | None = None
    evidence_signature: bytes | None = None
    answer: bytes | None = None


class StorageReceipt(NamedTuple):
    """The evidence of a node's DELIVERY ack, as it is journaled (SPEC 10.2, 13.1).

    With the payload hash, `inner_hash` gives the leaf; `path` leads from it to `root`, which the node signed.
    """

    inner_hash: bytes
    path: bytes
    root: bytes
    at_ms: int
    signature: bytes


class EventColumns(TypedDict, total=False):
    """The columns that a writer may set besides number, time and kind; a test holds them equal to `JournalEvent`."""

    message_id: MessageId | None
    session_tag: SessionTag | None
    sequence: int | None
    payload_hash: PayloadHash | None
    size_bytes: int | None
    message_kind: Kind | None
    priority: Priority | None
    attempt: int | None
    code: str | None
    node: NodeId | None
    latency_ms: int | None
    ttl_s: int | None
    last_sequence: int | None
    previous_session_tag: SessionTag | None
    evidence_inner_hash: bytes | None
    evidence_path: bytes | None
    evidence_root: bytes | None
    evidence_at_ms: int | None
    evidence_signature: bytes | None
    answer: bytes | None
