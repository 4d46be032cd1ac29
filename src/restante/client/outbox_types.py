"""What a caller of the outbox gives it and is given: messages, destinations, and how things stand."""

from dataclasses import dataclass

from restante.model.error_codes import Code
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.states import Confirmation, Route, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is to be sent. `payload` is sealed already; `sealed_plaintext` is stored for another encryption.

    A `message_id` may be given for one destination; otherwise each destination's message gets its own.
    """

    payload: bytes
    kind: str = Kind.TEXT
    ttl_s: int | None = None
    priority: Priority | None = None
    message_id: MessageId | None = None
    sealed_plaintext: bytes = b""


@dataclass(frozen=True, slots=True)
class Destination:
    """A lane of a route: one relay, one chat, one recipient on the mesh."""

    route: Route
    lane: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What a drain did. `is_complete` is False when its budget ran out first."""

    sent: int
    failed: int
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where one message is and how far it was confirmed."""

    state: State
    confirmation: Confirmation
    attempts: int
    last_error: Code | None
