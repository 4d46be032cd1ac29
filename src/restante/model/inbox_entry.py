"""A received message as the inbox stores it (SPEC 9.6)."""

from dataclasses import dataclass

from restante.model.ids import Address, MessageId, SessionId
from restante.model.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """A message that was received and released to the application (SPEC 9.6).

    `first_read_at_ms` is when it was first shown, `acked_at_ms` when the application had processed it (SPEC 9.8).
    `is_late` is true if later messages of its session were released before it (SPEC 9.5).
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
    acked_at_ms: int | None = None
    expires_at_ms: int | None = None
    is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """Messages of one session in the reorder buffer. They are released at `until_ms`, or when the earlier one arrives
    (SPEC 9.5)."""

    sender: Address
    messages: int
    until_ms: int
