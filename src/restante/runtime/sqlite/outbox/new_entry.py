"""What a store of the outbox takes in with a message, and the events it gives out."""

from typing import NamedTuple

from restante.core.outbox_events import OutboxEventType
from restante.model.ids import MessageId, PayloadHash, SessionTag
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route


class NewEntry(NamedTuple):
    """A message to be accepted.

    `size_bytes` counts against capacity: the padded size of mail, whether it is encrypted yet or not. `relay` names the
    relay it will be stored at, for the limit per relay. Hash, session and number are known only where the caller
    encrypted the message itself.
    """

    message_id: MessageId
    size_bytes: int
    route: Route
    lane: str
    kind: Kind
    priority: Priority
    created_at_ms: int
    ttl_s: int
    queued_at_ms: int
    expires_at_ms: int
    next_attempt_at_ms: int
    payload: bytes
    sealed_plaintext: bytes
    relay: str | None = None
    session_tag: SessionTag | None = None
    sequence: int | None = None
    payload_hash: PayloadHash | None = None


def new_entry_of(
    entry: OutboxEntry,
    *,
    size_bytes: int | None = None,
    relay: str | None = None,
    session_tag: SessionTag | None = None,
    sequence: int | None = None,
    payload_hash: PayloadHash | None = None,
) -> NewEntry:
    """Return the entry as it is accepted; without `size_bytes` the payload's size counts."""
    return NewEntry(
        message_id=entry.message_id,
        size_bytes=len(entry.payload) if size_bytes is None else size_bytes,
        route=entry.route,
        lane=entry.lane,
        kind=entry.kind,
        priority=entry.priority,
        created_at_ms=entry.created_at_ms,
        ttl_s=entry.ttl_s,
        queued_at_ms=entry.queued_at_ms,
        expires_at_ms=entry.expires_at_ms,
        next_attempt_at_ms=entry.next_attempt_at_ms,
        payload=entry.payload,
        sealed_plaintext=entry.sealed_plaintext,
        relay=relay,
        session_tag=session_tag,
        sequence=sequence,
        payload_hash=payload_hash,
    )


class OutboxEvent(NamedTuple):
    """An event for the application, emitted after the commit."""

    message_id: MessageId
    notice: OutboxEventType
    code: str | None
    at_ms: int
