"""What the inbox tells: its caller of an arrival, the application of what changed. Data only."""

from dataclasses import dataclass
from typing import NamedTuple

from restante.core.inbox_events import AskReset, InboxEventType, RequestRetransmit
from restante.model.ids import Address, MessageId, SessionId
from restante.model.states import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A control message whose turn has come, with the session that brought it."""

    sender: Address
    session_id: SessionId
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Something to ask a sender for, about one of its sessions; to be queued in the transaction that found it out."""

    sender: Address
    session_id: SessionId
    what: RequestRetransmit | AskReset


class ReceiveResult(NamedTuple):
    """What an arrival was: None when it was refused, because its session is over.

    `control` are messages for us, not for the application, whose turn it brought; `asks` what is to be asked for. A
    tuple, as InboxEvent is, because one is made for every message.
    """

    verdict: Verdict | None
    control: tuple[Released, ...] = ()
    asks: tuple[Asked, ...] = ()


class InboxEvent(NamedTuple):
    """What the application is to be told, after the commit; `how_many` messages were skipped, or arrivals forgotten."""

    notice: InboxEventType
    at_ms: int
    sender: Address | None = None
    session_id: SessionId | None = None
    message_id: MessageId | None = None
    place: int | None = None
    is_late: bool = False
    code: str | None = None
    how_many: int = 1
