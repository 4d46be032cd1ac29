"""Results of receiving: what an arrival led to, and the events for the application. Data only."""

from dataclasses import dataclass
from typing import NamedTuple

from restante.core.decrypted_messages import DecryptedMessage
from restante.core.inbox_events import InboxEventType, RequestRetransmit
from restante.core.peer_session_events import Effect as PeerEffect
from restante.core.peer_sessions import PeerSessions
from restante.model.ids import Address, MessageId, SessionId
from restante.model.states import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Messages to request again from a sender, in the transaction that found them missing."""

    sender: Address
    session_id: SessionId
    what: RequestRetransmit


class ReceiveResult(NamedTuple):
    """What an arrival led to. `verdict` is None for an unreadable message. It is a tuple because one is made for each.

    `is_read`: its session advances. `control` is the control message to act on, `asks` are messages to request again.
    """

    verdict: Verdict | None
    peer: PeerSessions = PeerSessions()
    is_read: bool = False
    control: DecryptedMessage | None = None
    asks: tuple[Asked, ...] = ()
    peer_effects: tuple[PeerEffect, ...] = ()


class InboxEvent(NamedTuple):
    """An event for the application, emitted after the commit; `how_many` messages were skipped, or arrivals evicted."""

    notice: InboxEventType
    at_ms: int
    sender: Address | None = None
    session_id: SessionId | None = None
    message_id: MessageId | None = None
    place: int | None = None
    is_late: bool = False
    code: str | None = None
    how_many: int = 1
