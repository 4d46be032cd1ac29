"""One read of one time bucket: lists from all five nodes, each body once from the best-scored holder (SPEC 7.4).

Silent nodes are passed outward, up to the sixteenth. The read ends when every node that was asked has answered or
stayed silent, and every listed blob was fetched or has no holder left; the few that two nodes list wait only a while
for the others. Bodies go to receiving while others are still fetched (`ready`), so that a client that is ended early
has not fetched them for nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.model.ids import NodeId, PayloadHash
from restante.policy.mesh.placement import COPIES, RESPONSIBLE_WITHIN

ENOUGH_LISTS: Final = 2
"""Two nodes at least get a message."""
MOST_EARLY: Final = 100
"""More messages than these are a backlog. It waits for all lists, so that it is received in order."""


class Phase(StrEnum):
    LISTING = "listing"
    FETCHING = "fetching"
    FINISHED = "finished"


class ListReceived(NamedTuple):
    """The node's verified list and FETCH_DONE. `is_complete` is the node's claim that its silence counts."""

    node: NodeId
    hashes: tuple[PayloadHash, ...]
    is_complete: bool


class NodeSilent(NamedTuple):
    """The node could not be reached, did not answer in time, or its answer did not verify."""

    node: NodeId


class NotAsked(NamedTuple):
    """The recipient's own way to the node failed, a circuit for example: nothing is known about the node."""

    node: NodeId


class BodiesReceived(NamedTuple):
    """The node's answer to a request for bodies. `verified` have the hash that was asked for; the others were not sent,
    or their bytes are altered."""

    node: NodeId
    asked: tuple[PayloadHash, ...]
    verified: frozenset[PayloadHash]


class ListsOverdue(NamedTuple):
    """The few messages that so many nodes list wait no longer for other lists: these come with the next read."""

    enough: int


Event = ListReceived | NodeSilent | NotAsked | BodiesReceived | ListsOverdue


class AskList(NamedTuple):
    node: NodeId


class FetchBodies(NamedTuple):
    node: NodeId
    hashes: tuple[PayloadHash, ...]


class Finish(NamedTuple):
    """The read is over. `hashes` is the order in which bodies go to receiving. After they are committed, the host sends
    the owner's DELETE to `delete_at`: the five, and nodes further out that listed one of the blobs."""

    hashes: tuple[PayloadHash, ...]
    counted: int
    is_whole: bool
    delete_at: tuple[NodeId, ...]
    missing_at: tuple[tuple[NodeId, PayloadHash], ...]
    """Nodes that claimed to be complete and did not list a blob that another node sent. With an earlier storage receipt
    of the node for that blob it is evidence of withholding (SPEC 13.5); otherwise it proves nothing."""


Effect = AskList | FetchBodies | Finish

_LISTED: Final = frozenset({Phase.LISTING, Phase.FETCHING, Phase.FINISHED})
_FETCHED: Final = frozenset({Phase.FETCHING, Phase.FINISHED})
TABLE: Final[Table[Phase]] = {
    Phase.LISTING: {
        ListReceived: _LISTED,
        NodeSilent: _LISTED,
        NotAsked: _LISTED,
        ListsOverdue: _LISTED,
        # Nothing is fetched yet: a body that comes is not ours to act on.
        BodiesReceived: frozenset({Phase.LISTING}),
    },
    Phase.FETCHING: {
        # A list that comes after the decision waits for the next read.
        ListReceived: frozenset({Phase.FETCHING}),
        NodeSilent: _FETCHED,
        NotAsked: _FETCHED,
        BodiesReceived: _FETCHED,
        ListsOverdue: frozenset({Phase.FETCHING}),
    },
    Phase.FINISHED: dict.fromkeys(
        (ListReceived, NodeSilent, NotAsked, BodiesReceived, ListsOverdue), frozenset({Phase.FINISHED})
    ),
}


class Answer(NamedTuple):
    node: NodeId
    hashes: tuple[PayloadHash, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """`order` is the placement outward, `ranked` the same nodes by score. `wanted` are the listed blobs that are not
    known, in the order in which they go to receiving; empty while lists are missing."""

    phase: Phase
    order: tuple[NodeId, ...]
    ranked: tuple[NodeId, ...]
    known: frozenset[PayloadHash]
    asked: tuple[NodeId, ...] = ()
    silent: frozenset[NodeId] = frozenset()
    answers: tuple[Answer, ...] = ()
    enough: int | None = None
    """How many lists are enough, if not all."""
    wanted: tuple[PayloadHash, ...] = ()
    fetching: frozenset[tuple[NodeId, PayloadHash]] = frozenset()
    tried: frozenset[tuple[NodeId, PayloadHash]] = frozenset()
    verified: frozenset[PayloadHash] = frozenset()


Step = tuple[Read, tuple[Effect, ...]]


def start(
    order: Sequence[NodeId], *, ranked: Sequence[NodeId] | None = None, known: Iterable[PayloadHash] = ()
) -> Step:
    """Return a read of one bucket. `known` are blobs that were received before: they are not fetched again."""
    nodes = tuple(order[:RESPONSIBLE_WITHIN])
    state = Read(
        phase=Phase.LISTING,
        order=nodes,
        ranked=tuple(nodes if ranked is None else [each for each in ranked if each in nodes]),
        known=frozenset(known),
        asked=nodes[:COPIES],
    )
    if not nodes:
        return _finish(state)
    return state, tuple(AskList(node) for node in state.asked)


def step(state: Read, event: Event) -> Step:
    following = legal_phases(TABLE, state.phase, event)
    after, effects = _step(state, event)
    check_phase(following, after.phase, event)
    return after, effects


def _step(state: Read, event: Event) -> Step:
    match state.phase, event:
        case Phase.LISTING, ListReceived(node, hashes, is_complete) if _awaited(state, node):
            answered = replace(state, answers=(*state.answers, Answer(node, hashes, is_complete)))
            return _fetch_if_listed(answered, ())
        case Phase.LISTING, NodeSilent(node) | NotAsked(node) if _awaited(state, node):
            passed = replace(state, silent=state.silent | {node})
            # If our own way failed, that to the next closest one would fail, too.
            return _walk_outward(passed) if isinstance(event, NodeSilent) else _fetch_if_listed(passed, ())
        case Phase.LISTING, ListsOverdue(enough):
            return _fetch_if_listed(replace(state, enough=enough), ())
        case Phase.FETCHING, NodeSilent(node) | NotAsked(node):
            lost = frozenset(each for each in state.fetching if each[0] == node)
            return _fetch(replace(state, fetching=state.fetching - lost, tried=state.tried | lost))
        case Phase.FETCHING, BodiesReceived(node, asked, verified):
            missing = frozenset((node, each) for each in asked if each not in verified) & state.fetching
            left = frozenset(each for each in state.fetching if each[1] not in verified) - missing
            return _fetch(
                replace(state, fetching=left, tried=state.tried | missing, verified=state.verified | verified)
            )
        case _:
            return state, ()


def ready(state: Read) -> tuple[PayloadHash, ...]:
    """Return the bodies that can go to receiving now, in order: all before the first one that is still fetched."""
    under_way = {payload_hash for _, payload_hash in state.fetching}
    found = takewhile(lambda each: each not in under_way, state.wanted)
    return tuple(each for each in found if each in state.verified)


def delete_at(state: Read) -> tuple[NodeId, ...]:
    """Return the nodes that the owner's DELETE goes to: the five, and nodes further out that listed a fetched blob."""
    listed_by = (each.node for each in state.answers if state.verified.intersection(each.hashes))
    return tuple(dict.fromkeys((*state.order[:COPIES], *listed_by)))


def _awaited(state: Read, node: NodeId) -> bool:
    return node in state.asked and node not in state.silent and all(each.node != node for each in state.answers)


def _walk_outward(state: Read) -> Step:
    """Ask the next closest node in place of a silent one."""
    following = next((node for node in state.order if node not in state.asked), None)
    if following is None or _has_enough(state):
        return _fetch_if_listed(state, ())
    return _fetch_if_listed(replace(state, asked=(*state.asked, following)), (AskList(following),))


def _fetch_if_listed(state: Read, effects: tuple[Effect, ...]) -> Step:
    if len(state.answers) + len(state.silent) < len(state.asked) and not _has_enough(state):
        return state, effects
    after, more = _fetch(replace(state, phase=Phase.FETCHING, wanted=_union(state)))
    return after, effects + more


def _has_enough(state: Read) -> bool:
    return state.enough is not None and len(state.answers) >= state.enough and len(_union(state)) <= MOST_EARLY


def _fetch(state: Read) -> Step:
    """Ask for each blob that is neither here nor under way, at its best holder that was not tried for it."""
    holders = {each.node: frozenset(each.hashes) for each in state.answers}
    under_way = {payload_hash for _, payload_hash in state.fetching}
    chosen: dict[NodeId, list[PayloadHash]] = {}
    for payload_hash in state.wanted:
        if payload_hash in state.verified or payload_hash in under_way:
            continue
        for node in state.ranked:
            if payload_hash in holders.get(node, ()) and (node, payload_hash) not in state.tried:
                chosen.setdefault(node, []).append(payload_hash)
                break
    asked = frozenset((node, each) for node, hashes in chosen.items() for each in hashes)
    state = replace(state, fetching=state.fetching | asked)
    effects = tuple(FetchBodies(node, tuple(hashes)) for node, hashes in chosen.items())
    if state.fetching:
        return state, effects
    after, finish = _finish(state)
    return after, effects + finish


def _union(state: Read) -> tuple[PayloadHash, ...]:
    """Return all listed blobs that are not known, in an order that keeps that of the longest list.

    A node may lack any part, also the beginning. What the longest list lacks comes before that which follows it in the
    list of another node.
    """
    first, *others = sorted(state.answers, key=lambda each: -len(each.hashes)) or [Answer(NodeId(b""), (), False)]
    united = dict.fromkeys(first.hashes)
    for other in others:
        if not united.keys() >= set(other.hashes):
            united = _merged(united, other.hashes)
    return tuple(each for each in united if each not in state.known)


def _merged(united: dict[PayloadHash, None], hashes: Iterable[PayloadHash]) -> dict[PayloadHash, None]:
    before: dict[PayloadHash, list[PayloadHash]] = {}
    run: list[PayloadHash] = []
    for each in hashes:
        if each not in united:
            run.append(each)
        elif run:
            before[each], run = run, []
    merged = (one for each in united for one in (*before.get(each, ()), each))
    return dict.fromkeys((*merged, *run))


def _finish(state: Read) -> Step:
    complete = [each for each in state.answers if each.is_complete]
    read = tuple(each for each in state.wanted if each in state.verified)
    missing = tuple(
        (each.node, payload_hash)
        for each in complete
        for listed in (frozenset(each.hashes),)
        for payload_hash in read
        if payload_hash not in listed
    )
    finish = Finish(
        hashes=read,
        counted=len(complete),
        is_whole=len(read) == len(state.wanted),
        delete_at=delete_at(state),
        missing_at=missing,
    )
    return replace(state, phase=Phase.FINISHED), (finish,)
