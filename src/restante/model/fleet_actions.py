"""What the fleet's tables ask a client or a node to do (SPEC 13.6). Words and fields only."""

from dataclasses import dataclass
from enum import StrEnum

from restante.model.ids import MessageId, NodeId, PayloadHash, WriterId


class ActionKind(StrEnum):
    RETRANSMIT = "retransmit"
    """To a sender: store this message again, no node has it any more."""
    REPAIR = "repair"
    """To a node: copy this blob to other nodes, too few hold it."""
    REDRIVE = "redrive"
    """To a sender: this dead letter's daily retry is due."""
    SCOREBOARD = "scoreboard"
    """To everybody: how good a place a node is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAction:
    """One proposal. `target` None is for everybody; `fact_at_ms` is the moment of the fact it answers."""

    action: ActionKind
    target: WriterId | None = None
    message_id: MessageId | None = None
    payload_hash: PayloadHash | None = None
    node: NodeId | None = None
    score: float | None = None
    fact_at_ms: int | None = None
    reason: str
    as_of_ms: int
