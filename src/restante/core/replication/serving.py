"""Whether a node's answers count, and how it leaves (SPEC 7.5, 7.9).

A node that has just started may lack what its neighbours hold. It says `complete` only after a round with them. A node
that leaves stays until its neighbours have its blobs, or five minutes.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.policy.mesh.placement import COMPLETE_WITHIN
from restante.policy.mesh.repair import LEAVE_WITHIN_MS


class Phase(StrEnum):
    SYNCING = "syncing"
    """Started, and not yet synced with its neighbours."""
    SERVING = "serving"
    LEAVING = "leaving"
    GONE = "gone"


class SyncFinished(NamedTuple):
    """A round is over: `answered` of `asked` neighbours sent their lists."""

    answered: int
    asked: int


class LeaveRequested(NamedTuple):
    pass


class NeighboursSynced(NamedTuple):
    """Every blob of this node has enough other copies."""


class TimePassed(NamedTuple):
    pass


Event = SyncFinished | LeaveRequested | NeighboursSynced | TimePassed


class Withdraw(NamedTuple):
    """Publish a descriptor that expires now."""


class Stop(NamedTuple):
    pass


class WakeAt(NamedTuple):
    at_ms: int


Effect = Withdraw | Stop | WakeAt

_SAME_LEAVING: Final = frozenset({Phase.LEAVING})
TABLE: Final[Table[Phase]] = {
    Phase.SYNCING: {
        SyncFinished: frozenset({Phase.SYNCING, Phase.SERVING}),
        LeaveRequested: _SAME_LEAVING,
        NeighboursSynced: frozenset({Phase.SYNCING}),
        TimePassed: frozenset({Phase.SYNCING}),
    },
    Phase.SERVING: {
        SyncFinished: frozenset({Phase.SERVING}),
        LeaveRequested: _SAME_LEAVING,
        NeighboursSynced: frozenset({Phase.SERVING}),
        TimePassed: frozenset({Phase.SERVING}),
    },
    Phase.LEAVING: {
        SyncFinished: _SAME_LEAVING,
        LeaveRequested: _SAME_LEAVING,
        NeighboursSynced: frozenset({Phase.GONE}),
        TimePassed: frozenset({Phase.LEAVING, Phase.GONE}),
    },
    Phase.GONE: dict.fromkeys((SyncFinished, LeaveRequested, NeighboursSynced, TimePassed), frozenset({Phase.GONE})),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    phase: Phase = Phase.SYNCING
    leave_by_ms: int = 0


Step = tuple[Serving, tuple[Effect, ...]]


def is_synced(event: SyncFinished) -> bool:
    """Return whether a round makes this node's silence meaningful: every neighbour that is not dead answered.

    One that is left out may be the only holder of a blob. The host asks those that core/replication/neighbours does not
    call dead. Blobs that were listed and could not be fetched do not matter: a liar that lists hashes at random would
    otherwise silence its whole neighbourhood.
    """
    return event.answered == event.asked


def is_complete(state: Serving, rank: int | None) -> bool:
    """Return whether this node sets `complete` for a key of which it is at place `rank` (SPEC 7.5)."""
    return state.phase is Phase.SERVING and rank is not None and rank < COMPLETE_WITHIN


def step(state: Serving, event: Event, *, now_ms: int) -> Step:
    following = legal_phases(TABLE, state.phase, event)
    after, effects = _step(state, event, now_ms)
    check_phase(following, after.phase, event)
    return after, effects


def _step(state: Serving, event: Event, now_ms: int) -> Step:
    match state.phase, event:
        case Phase.SYNCING, SyncFinished() if is_synced(event):
            return replace(state, phase=Phase.SERVING), ()
        case ((Phase.SYNCING | Phase.SERVING), LeaveRequested()):
            leave_by_ms = now_ms + LEAVE_WITHIN_MS
            return Serving(phase=Phase.LEAVING, leave_by_ms=leave_by_ms), (Withdraw(), WakeAt(leave_by_ms))
        case Phase.LEAVING, NeighboursSynced():
            return replace(state, phase=Phase.GONE), (Stop(),)
        case Phase.LEAVING, TimePassed() if now_ms >= state.leave_by_ms:
            return replace(state, phase=Phase.GONE), (Stop(),)
        case _:
            return state, ()
