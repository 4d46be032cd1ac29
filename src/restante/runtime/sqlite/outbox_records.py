"""What goes into the outbox's file with a message, and what comes out of it to be told."""

from typing import NamedTuple

from restante.core.outbox_events import Notice
from restante.model.ids import MessageId, PayloadHash, SessionTag
from restante.model.records import OutboxEntry


class Acceptance(NamedTuple):
    """An entry on its way in, with what only its first fact says about it.

    `is_minted` says that its id was drawn for it just now, so that nobody can have had it before.
    """

    entry: OutboxEntry
    is_minted: bool = False
    sealed_hash: PayloadHash | None = None
    session_tag: SessionTag | None = None
    sequence: int | None = None


class Change(NamedTuple):
    """What the application is to be told, after the commit."""

    message_id: MessageId
    notice: Notice
    code: str | None
    at_ms: int
