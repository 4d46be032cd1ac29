"""Watch one neighbour: pings every minute, two misses start repair (SPEC 7.9)."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.model.ids import NodeId
from restante.policy.mesh.repair import needs_repair


class Phase(StrEnum):
    ALIVE = "alive"
    DOUBTED = "doubted"
    """One ping was missed."""
    DEAD = "dead"
    """Two pings were missed, or the node left."""


class PingAnswered(NamedTuple):
    pass


class PingMissed(NamedTuple):
    pass


class Left(NamedTuple):
    """The node published a descriptor that expires now."""


Event = PingAnswered | PingMissed | Left


class Repair(NamedTuple):
    """Start an anti-entropy round for the keys that this node held with us."""

    lost: NodeId


class Exchange(NamedTuple):
    """Start an anti-entropy round with this node: it was away and may miss blobs, or have some that we miss."""

    node: NodeId


Effect = Repair | Exchange

TABLE: Final[Table[Phase]] = {
    Phase.ALIVE: {
        PingAnswered: frozenset({Phase.ALIVE}),
        PingMissed: frozenset({Phase.DOUBTED}),
        Left: frozenset({Phase.DEAD}),
    },
    Phase.DOUBTED: {
        PingAnswered: frozenset({Phase.ALIVE}),
        PingMissed: frozenset({Phase.DEAD}),
        Left: frozenset({Phase.DEAD}),
    },
    Phase.DEAD: {
        PingAnswered: frozenset({Phase.ALIVE}),
        PingMissed: frozenset({Phase.DEAD}),
        Left: frozenset({Phase.DEAD}),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    node: NodeId
    phase: Phase = Phase.ALIVE
    missed: int = 0


Step = tuple[Neighbour, tuple[Effect, ...]]


def meet(node: NodeId) -> Step:
    """Return a neighbour that just appeared: it may have blobs of ours, and needs some of them."""
    return Neighbour(node=node), (Exchange(node),)


def step(state: Neighbour, event: Event) -> Step:
    following = legal_phases(TABLE, state.phase, event)
    after, effects = _step(state, event)
    check_phase(following, after.phase, event)
    return after, effects


def _step(state: Neighbour, event: Event) -> Step:
    match state.phase, event:
        case Phase.DEAD, PingAnswered():
            return replace(state, phase=Phase.ALIVE, missed=0), (Exchange(state.node),)
        case Phase.DEAD, _:
            return state, ()
        case _, PingAnswered():
            return replace(state, phase=Phase.ALIVE, missed=0), ()
        case _, Left():
            return replace(state, phase=Phase.DEAD), (Repair(state.node),)
        case _:
            missed = state.missed + 1
            if needs_repair(missed):
                return replace(state, phase=Phase.DEAD, missed=missed), (Repair(state.node),)
            return replace(state, phase=Phase.DOUBTED, missed=missed), ()
