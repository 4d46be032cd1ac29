"""What goes into the outbox's file with a message, and what comes out of it to be told."""

from typing import NamedTuple

from restante.core.outbox_events import OutboxEventType
from restante.model.ids import MessageId, PayloadHash, SessionTag
from restante.model.kinds import Kind, Priority
from restante.model.states import Route

NewEntry = tuple[
    MessageId,
    int,
    Route,
    str,
    Kind,
    Priority,
    int,
    int,
    int,
    int,
    int,
    int,
    SessionTag | None,
    int | None,
    PayloadHash | None,
    bytes,
    bytes,
]
"""What is kept of a new message, in the order of its row: id, size in bytes, route, lane, kind, priority,
created_at_ms, ttl_s, queued_at_ms, expires_at_ms, next_attempt_at_ms, attention_at_ms; what only its first fact says,
the tag of its session, its place there and the hash of its sealed bytes; payload and sealed_plaintext. No class of its
own: one is made for every send."""


class OutboxEvent(NamedTuple):
    """What the application is to be told, after the commit."""

    message_id: MessageId
    notice: OutboxEventType
    code: str | None
    at_ms: int
