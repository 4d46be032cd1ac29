"""One anti-entropy round of a node with its neighbours: HAVE, lists where they differ, WANT, BLOCK (SPEC 7.9).

The same round serves joining, repair and waking up. A node only pulls: its neighbours run rounds of their own. Blobs
with the fewest copies come first, and neighbours take turns. One that lists what it does not send, or sends slowly,
holds back no blob of the others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.repair import MissingCopy, repair_order

MOST_UNDER_WAY: Final = 16
"""WANTs at a time. With the byte rate of policy/mesh/repair this bounds what a round holds in memory."""
MOST_UNANSWERED: Final = 16
"""How many WANTs a neighbour may leave without an answer; then this node sends it no more in this round. Otherwise a
neighbour that lists hashes of blobs that do not exist would hold up the round with one time-out after the other. An
answer that the blob is gone does not count: its owner may have deleted it."""


class Phase(StrEnum):
    COMPARING = "comparing"
    FETCHING = "fetching"
    FINISHED = "finished"


class Blob(NamedTuple):
    inbox_key: InboxKey
    payload_hash: PayloadHash


class ListsReceived(NamedTuple):
    """What the neighbour holds of the keys that differ, without what we know already (live or deleted)."""

    node: NodeId
    missing: tuple[Blob, ...]
    is_whole: bool = True
    """Whether this is all that it lists; the rest is left for another round."""


class NodeLost(NamedTuple):
    """The neighbour did not answer, or the connection to it ended."""

    node: NodeId


class BlockStored(NamedTuple):
    """The blob was verified and is on disk."""

    blob: Blob


class BlockFailed(NamedTuple):
    """The neighbour no longer has the blob, or sent other bytes, or we may not take it."""

    node: NodeId
    blob: Blob
    was_answered: bool = False
    """Whether the neighbour sent what it listed, and this node does not store it, or said that it no longer has it."""


class TimePassed(NamedTuple):
    """The longest time of a round is over."""


Event = ListsReceived | NodeLost | BlockStored | BlockFailed | TimePassed


class SendHave(NamedTuple):
    """Send HAVE for the keys that this neighbour and we both may hold."""

    node: NodeId


class SendWant(NamedTuple):
    node: NodeId
    blob: Blob


class Finish(NamedTuple):
    """The round is over; `answered` of the `asked` neighbours sent their lists, and were asked for all they list or did
    not send it."""

    answered: int
    asked: int
    fetched: int
    unfetched: int

    @property
    def leaves_some(self) -> bool:
        """Whether another round soon will fetch more: this one fetched something, and not everything."""
        return self.fetched > 0 and (self.unfetched > 0 or self.answered < self.asked)


Effect = SendHave | SendWant | Finish

_ANY: Final = frozenset(Phase)
_FETCHED: Final = frozenset({Phase.FETCHING, Phase.FINISHED})
_OVER: Final = frozenset({Phase.FINISHED})
TABLE: Final[Table[Phase]] = {
    Phase.COMPARING: {
        ListsReceived: _ANY,
        NodeLost: _ANY,
        **dict.fromkeys((BlockStored, BlockFailed), frozenset({Phase.COMPARING})),
        TimePassed: _OVER,
    },
    Phase.FETCHING: {
        ListsReceived: frozenset({Phase.FETCHING}),
        NodeLost: _FETCHED,
        BlockStored: _FETCHED,
        BlockFailed: _FETCHED,
        TimePassed: _OVER,
    },
    Phase.FINISHED: dict.fromkeys((ListsReceived, NodeLost, BlockStored, BlockFailed, TimePassed), _OVER),
}


class Wanted(NamedTuple):
    """A blob with the neighbours that hold it and were not tried for it."""

    blob: Blob
    holders: frozenset[NodeId]


class Fetching(NamedTuple):
    node: NodeId
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Line:
    """What one neighbour is to be asked for, fewest copies first. `taken` moves on, so that a WANT copies nothing."""

    wanted: tuple[Wanted, ...] = ()
    taken: int = 0
    again: tuple[Wanted, ...] = ()
    """Blobs that another holder did not send. They come first."""

    def __len__(self) -> int:
        return len(self.again) + len(self.wanted) - self.taken

    @property
    def first(self) -> Wanted:
        return self.again[0] if self.again else self.wanted[self.taken]

    def without_first(self) -> "Line":
        return replace(self, again=self.again[1:]) if self.again else replace(self, taken=self.taken + 1)

    def left(self) -> tuple[Wanted, ...]:
        return self.again + self.wanted[self.taken :]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRound:
    phase: Phase
    peers: tuple[NodeId, ...]
    """By score: the best holder is asked for a blob."""
    answered: frozenset[NodeId] = frozenset()
    cut: frozenset[NodeId] = frozenset()
    """Neighbours that list more than this round takes."""
    lost: frozenset[NodeId] = frozenset()
    lists: Mapping[NodeId, tuple[Blob, ...]] = field(default_factory=dict)
    """While comparing: what each lists, in the order in which the lists came."""
    lines: Mapping[NodeId, Line] = field(default_factory=dict)
    """While fetching. No line is empty, and none is of a lost neighbour."""
    unanswered: Mapping[NodeId, int] = field(default_factory=dict)
    under_way: frozenset[Fetching] = frozenset()
    fetched: int = 0
    unfetched: int = 0


Step = tuple[SyncRound, tuple[Effect, ...]]


def start(peers: Sequence[NodeId]) -> Step:
    state = SyncRound(phase=Phase.COMPARING, peers=tuple(peers))
    if not peers:
        return _finish(state)
    return state, tuple(SendHave(node) for node in state.peers)


def step(state: SyncRound, event: Event) -> Step:
    following = legal_phases(TABLE, state.phase, event)
    after, effects = _step(state, event)
    check_phase(following, after.phase, event)
    return after, effects


def missing_blobs(
    lists: Mapping[InboxKey, Iterable[PayloadHash]], known: Mapping[InboxKey, frozenset[PayloadHash]]
) -> tuple[Blob, ...]:
    """Return what a neighbour lists and we don't know. Deleted blobs are known: their hashes are kept."""
    return tuple(
        Blob(key, each) for key, hashes in lists.items() for each in hashes if each not in known.get(key, frozenset())
    )


def _step(state: SyncRound, event: Event) -> Step:
    match state.phase, event:
        case Phase.COMPARING, ListsReceived(node, missing, is_whole) if _awaited(state, node):
            cut = state.cut if is_whole else state.cut | {node}
            lists = {**state.lists, node: missing}
            return _fetch_if_compared(replace(state, lists=lists, cut=cut, answered=state.answered | {node}))
        case Phase.COMPARING, NodeLost(node) if _awaited(state, node):
            return _fetch_if_compared(replace(state, lost=state.lost | {node}))
        case Phase.FETCHING, NodeLost(node):
            return _fetch(_lose(state, node))
        case Phase.FETCHING, BlockStored(blob):
            done = frozenset(each for each in state.under_way if each.wanted.blob == blob)
            if not done:
                return state, ()
            return _fetch(replace(state, under_way=state.under_way - done, fetched=state.fetched + 1))
        case Phase.FETCHING, BlockFailed(node, blob, was_answered):
            failed = frozenset(each for each in state.under_way if (each.node, each.wanted.blob) == (node, blob))
            return _fetch(_failed(state, failed, node, was_answered=was_answered)) if failed else (state, ())
        case ((Phase.COMPARING | Phase.FETCHING), TimePassed()):
            return _finish(state)
        case _:
            return state, ()


def _awaited(state: SyncRound, node: NodeId) -> bool:
    return node in state.peers and node not in state.answered and node not in state.lost


def _fetch_if_compared(state: SyncRound) -> Step:
    if len(state.answered) + len(state.lost) < len(state.peers):
        return state, ()
    holders: dict[Blob, frozenset[NodeId]] = {}
    for node, blobs in state.lists.items():
        alone = frozenset({node})
        for blob in blobs:
            held = holders.get(blob)
            holders[blob] = alone if held is None else held | alone
    ordered = repair_order(MissingCopy(*blob, len(held)) for blob, held in holders.items())
    blobs_in_order = (Blob(each.inbox_key, each.payload_hash) for each in ordered)
    wanted = [Wanted(blob, holders[blob]) for blob in blobs_in_order]
    return _fetch(_queued(replace(state, phase=Phase.FETCHING, lists={}), wanted))


def _queued(state: SyncRound, wanted: Iterable[Wanted]) -> SyncRound:
    """Put many blobs into the line of their best living holders, before what is there."""
    of: dict[NodeId, list[Wanted]] = {}
    unfetched = state.unfetched
    for each in wanted:
        best = _best_holder(state, each)
        if best is None:
            unfetched += 1
        else:
            of.setdefault(best, []).append(each)
    new = {node: Line((*some, *state.lines.get(node, Line()).left())) for node, some in of.items()}
    return replace(state, lines={**state.lines, **new}, unfetched=unfetched)


def _best_holder(state: SyncRound, wanted: Wanted) -> NodeId | None:
    return next((node for node in state.peers if node in wanted.holders and node not in state.lost), None)


def _failed(state: SyncRound, failed: frozenset[Fetching], node: NodeId, *, was_answered: bool) -> SyncRound:
    """Leave the blob to another holder, and count what a neighbour did not answer."""
    lines, unfetched = dict(state.lines), state.unfetched
    for each in failed:
        best = _best_holder(state, each.wanted)
        if best is None:
            unfetched += 1
        else:
            line = lines.get(best, Line())
            lines[best] = replace(line, again=(each.wanted, *line.again))
    unanswered = state.unanswered if was_answered else {**state.unanswered, node: state.unanswered.get(node, 0) + 1}
    state = replace(state, under_way=state.under_way - failed, lines=lines, unfetched=unfetched, unanswered=unanswered)
    return _lose(state, node) if unanswered.get(node, 0) >= MOST_UNANSWERED else state


def _lose(state: SyncRound, node: NodeId) -> SyncRound:
    """Leave everything that a neighbour was or is to be asked for to other holders."""
    gone = frozenset(each for each in state.under_way if each.node == node)
    lines = {each: line for each, line in state.lines.items() if each != node}
    left = state.lines.get(node, Line()).left()
    state = replace(state, lost=state.lost | {node}, under_way=state.under_way - gone, lines=lines)
    return _queued(state, (*sorted(each.wanted for each in gone), *left))


def _fetch(state: SyncRound) -> Step:
    """Send the next WANTs, each to the neighbour with the fewest under way."""
    lines, under_way, effects = dict(state.lines), set(state.under_way), list[Effect]()
    busy = Counter(each.node for each in under_way)
    while len(under_way) < MOST_UNDER_WAY and any(lines.values()):
        able = [each for each in state.peers if lines.get(each)]
        node = min(able, key=lambda each: (busy[each], len(lines[each].first.holders)))
        wanted = lines[node].first
        lines[node] = lines[node].without_first()
        busy[node] += 1
        under_way.add(Fetching(node, wanted._replace(holders=wanted.holders - {node})))
        effects.append(SendWant(node, wanted.blob))
    lines = {node: line for node, line in lines.items() if line}
    state = replace(state, under_way=frozenset(under_way), lines=lines)
    if state.under_way:
        return state, tuple(effects)
    after, finish = _finish(state)
    return after, (*effects, *finish)


def _finish(state: SyncRound) -> Step:
    """End the round, also with blobs that were not asked for or did not come yet."""
    unfinished = state.cut | {each.node for each in state.under_way} | state.lines.keys()
    answered = len(state.answered - (unfinished - state.lost))
    unfetched = state.unfetched + len(state.under_way) + sum(map(len, state.lines.values()))
    finish = Finish(answered, len(state.peers), state.fetched, unfetched)
    return replace(state, phase=Phase.FINISHED, lines={}, under_way=frozenset()), (finish,)
