"""Find the nodes closest to a key by asking ever closer ones (SPEC 7.1): iterative, three requests at a time.

A node that answers slowly frees its place after a while but may still answer. The lookup ends when the closest `want`
nodes that it knows, failed ones left out, have all answered.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.model.ids import NodeId

ALPHA: Final = 3
MOST_KNOWN: Final = 60
"""Nodes farther away than this many closer ones are forgotten: answers of liars can't grow the list."""
MOST_CONTACTS: Final = 20


class Phase(StrEnum):
    SEARCHING = "searching"
    FOUND = "found"
    FAILED = "failed"
    """No node answered."""


class Asked(StrEnum):
    NO = "no"
    WAITING = "waiting"
    SLOW = "slow"
    ANSWERED = "answered"
    FAILED = "failed"


class NodesAnswered(NamedTuple):
    """The descriptors in the answer are verified and their positions given here."""

    node: NodeId
    contacts: tuple[NodeId, ...]


class AskFailed(NamedTuple):
    node: NodeId


class AskDelayed(NamedTuple):
    """The node has not answered for a while; another one is asked in its place."""

    node: NodeId


Event = NodesAnswered | AskFailed | AskDelayed


class Ask(NamedTuple):
    """Send FIND_NODE to this node."""

    node: NodeId


class Finish(NamedTuple):
    """The closest nodes that answered, in order."""

    closest: tuple[NodeId, ...]


Effect = Ask | Finish

TABLE: Final[Table[Phase]] = {
    Phase.SEARCHING: {
        NodesAnswered: frozenset({Phase.SEARCHING, Phase.FOUND}),
        AskFailed: frozenset(Phase),
        AskDelayed: frozenset({Phase.SEARCHING}),
    },
    # Late answers are normal and change nothing.
    Phase.FOUND: dict.fromkeys((NodesAnswered, AskFailed, AskDelayed), frozenset({Phase.FOUND})),
    Phase.FAILED: dict.fromkeys((NodesAnswered, AskFailed, AskDelayed), frozenset({Phase.FAILED})),
}


class Known(NamedTuple):
    """A node by distance. `depth` counts the answers that led to it, from 0 for the own table."""

    distance: int
    node: NodeId
    depth: int
    asked: Asked = Asked.NO


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """`known` is sorted by distance."""

    phase: Phase
    target: int
    want: int
    known: tuple[Known, ...]
    rounds: int = 0
    """How many answers after each other led to the closest nodes."""


Step = tuple[Lookup, tuple[Effect, ...]]


def start(target: bytes, contacts: Iterable[NodeId], *, want: int) -> Step:
    """Return a lookup that starts from the closest contacts of the own table."""
    number = int.from_bytes(target, "big")
    known = _merged((), ((node, 0) for node in contacts), number)
    return _continue(Lookup(phase=Phase.SEARCHING, target=number, want=want, known=known))


def step(state: Lookup, event: Event) -> Step:
    following = legal_phases(TABLE, state.phase, event)
    after, effects = _step(state, event) if state.phase is Phase.SEARCHING else (state, ())
    check_phase(following, after.phase, event)
    return after, effects


def _step(state: Lookup, event: Event) -> Step:
    found = next((each for each in state.known if each.node == event.node), None)
    if found is None or found.asked not in (Asked.WAITING, Asked.SLOW):
        return state, ()
    match event:
        case NodesAnswered(_, contacts):
            depth = found.depth + 1
            answered = _marked(state, found, Asked.ANSWERED)
            known = _merged(answered.known, ((node, depth) for node in contacts[:MOST_CONTACTS]), state.target)
            closer = known[: state.want] != answered.known[: state.want]
            rounds = max(state.rounds, depth) if closer else state.rounds
            return _continue(replace(answered, known=known, rounds=max(rounds, 1)))
        case AskFailed():
            return _continue(_marked(state, found, Asked.FAILED))
        case AskDelayed():
            return _continue(_marked(state, found, Asked.SLOW))


def _continue(state: Lookup) -> Step:
    """Ask the closest nodes not asked yet, or finish."""
    alive = [each for each in state.known if each.asked is not Asked.FAILED]
    head = alive[: state.want]
    if all(each.asked is Asked.ANSWERED for each in head):
        found = tuple(each.node for each in head)
        return replace(state, phase=Phase.FOUND if found else Phase.FAILED), (Finish(found),)
    free = ALPHA - sum(each.asked is Asked.WAITING for each in alive)
    chosen = [each for each in head if each.asked is Asked.NO][: max(free, 0)]
    if not chosen and free > 0 and any(each.asked is Asked.SLOW for each in head):
        # Slow nodes are among the closest: go on behind them until they answer or fail.
        chosen = [each for each in alive if each.asked is Asked.NO][:free]
    for each in chosen:
        state = _marked(state, each, Asked.WAITING)
    return state, tuple(Ask(each.node) for each in chosen)


def _marked(state: Lookup, which: Known, asked: Asked) -> Lookup:
    return replace(
        state, known=tuple(each._replace(asked=asked) if each.node == which.node else each for each in state.known)
    )


def _merged(known: tuple[Known, ...], found: Iterable[tuple[NodeId, int]], target: int) -> tuple[Known, ...]:
    have = {each.node for each in known}
    new = [
        Known(int.from_bytes(node, "big") ^ target, node, depth)
        for node, depth in dict(found).items()
        if node not in have
    ]
    if not new:
        return known
    # Nodes under way stay known, however far they are.
    ordered = sorted((*known, *new))
    return tuple(each for rank, each in enumerate(ordered) if rank < MOST_KNOWN or each.asked is not Asked.NO)
