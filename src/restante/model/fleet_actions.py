"""Actions: what the fleet proposes to a client or a node (SPEC 13.6). Values only."""

from dataclasses import dataclass
from enum import StrEnum

from restante.model.ids import MessageId, NodeId, PayloadHash, WriterId


class ActionKind(StrEnum):
    """The kinds of action."""

    RETRANSMIT = "retransmit"
    """To a sender: store this message again, because no node holds it any more."""
    REPAIR = "repair"
    """To a storage node: fetch from a neighbour the copy of this blob that it lost, because too few nodes hold it."""
    REDRIVE = "redrive"
    """To a sender: recover this dead letter; its daily retry is due."""
    SCOREBOARD = "scoreboard"
    """To all: the score of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAction:
    """One proposal. `target` None means all writers. `event_at_ms` is the time of the event that the action responds
    to."""

    action: ActionKind
    target: WriterId | None = None
    message_id: MessageId | None = None
    payload_hash: PayloadHash | None = None
    node: NodeId | None = None
    score: float | None = None
    event_at_ms: int | None = None
    reason: str
    as_of_ms: int
