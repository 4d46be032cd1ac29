"""One anti-entropy round of a node with its neighbours: HAVE, lists where they differ, WANT, BLOCK (SPEC 7.9).

The same round serves joining, repair and waking up. A node only pulls: its neighbours run rounds of their own. Blobs
with the fewest copies come first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.repair import MissingCopy, repair_order

MOST_UNDER_WAY: Final = 16
"""WANTs at a time. With the byte rate of policy/mesh/repair this bounds what a round holds in memory."""


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


Event = ListsReceived | NodeLost | BlockStored | BlockFailed


class SendHave(NamedTuple):
    """Send HAVE for the keys that this neighbour and we both may hold."""

    node: NodeId


class SendWant(NamedTuple):
    node: NodeId
    blob: Blob


class Finish(NamedTuple):
    """The round is over; `answered` of the `asked` neighbours sent their lists."""

    answered: int
    asked: int
    fetched: int
    unfetched: int


Effect = SendHave | SendWant | Finish

_ANY: Final = frozenset(Phase)
_FETCHED: Final = frozenset({Phase.FETCHING, Phase.FINISHED})
TABLE: Final[Table[Phase]] = {
    Phase.COMPARING: {
        ListsReceived: _ANY,
        NodeLost: _ANY,
        **dict.fromkeys((BlockStored, BlockFailed), frozenset({Phase.COMPARING})),
    },
    Phase.FETCHING: {
        ListsReceived: frozenset({Phase.FETCHING}),
        NodeLost: _FETCHED,
        BlockStored: _FETCHED,
        BlockFailed: _FETCHED,
    },
    Phase.FINISHED: dict.fromkeys((ListsReceived, NodeLost, BlockStored, BlockFailed), frozenset({Phase.FINISHED})),
}


class Wanted(NamedTuple):
    """A blob with the neighbours that hold it and were not tried for it."""

    blob: Blob
    holders: frozenset[NodeId]


class Fetching(NamedTuple):
    node: NodeId
    wanted: Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRound:
    phase: Phase
    peers: tuple[NodeId, ...]
    """By score: the best holder is asked for a blob."""
    answered: frozenset[NodeId] = frozenset()
    lost: frozenset[NodeId] = frozenset()
    line: tuple[Wanted, ...] = ()
    """What is not asked for yet, fewest copies first."""
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
        case Phase.COMPARING, ListsReceived(node, missing) if _awaited(state, node):
            line = _merged(state.line, node, missing)
            return _fetch_if_compared(replace(state, line=line, answered=state.answered | {node}))
        case Phase.COMPARING, NodeLost(node) if _awaited(state, node):
            return _fetch_if_compared(replace(state, lost=state.lost | {node}))
        case Phase.FETCHING, NodeLost(node):
            gone = frozenset(each for each in state.under_way if each.node == node)
            return _fetch(_put_back(replace(state, lost=state.lost | {node}), gone))
        case Phase.FETCHING, BlockStored(blob):
            done = frozenset(each for each in state.under_way if each.wanted.blob == blob)
            if not done:
                return state, ()
            return _fetch(replace(state, under_way=state.under_way - done, fetched=state.fetched + 1))
        case Phase.FETCHING, BlockFailed(node, blob):
            failed = frozenset(each for each in state.under_way if (each.node, each.wanted.blob) == (node, blob))
            return _fetch(_put_back(state, failed)) if failed else (state, ())
        case _:
            return state, ()


def _awaited(state: SyncRound, node: NodeId) -> bool:
    return node in state.peers and node not in state.answered and node not in state.lost


def _merged(line: tuple[Wanted, ...], node: NodeId, missing: tuple[Blob, ...]) -> tuple[Wanted, ...]:
    if not missing:
        return line
    holders = {each.blob: each.holders for each in line}
    for blob in missing:
        holders[blob] = holders.get(blob, frozenset()) | {node}
    return tuple(Wanted(blob, nodes) for blob, nodes in holders.items())


def _put_back(state: SyncRound, failed: frozenset[Fetching]) -> SyncRound:
    """Put the blobs in front of the line, without the holder that failed."""
    again = tuple(sorted(each.wanted for each in failed))
    return replace(state, under_way=state.under_way - failed, line=again + state.line)


def _fetch_if_compared(state: SyncRound) -> Step:
    if len(state.answered) + len(state.lost) < len(state.peers):
        return state, ()
    holders = {each.blob: each.holders for each in state.line}
    ordered = repair_order(MissingCopy(*blob, len(held)) for blob, held in holders.items())
    blobs = [Blob(each.inbox_key, each.payload_hash) for each in ordered]
    return _fetch(replace(state, phase=Phase.FETCHING, line=tuple(Wanted(blob, holders[blob]) for blob in blobs)))


def _fetch(state: SyncRound) -> Step:
    """Send WANTs for the first blobs in line, each to its best living holder."""
    under_way, effects, unfetched = set(state.under_way), list[Effect](), state.unfetched
    taken = 0
    for wanted in state.line:
        if len(under_way) >= MOST_UNDER_WAY:
            break
        taken += 1
        best = next((node for node in state.peers if node in wanted.holders and node not in state.lost), None)
        if best is None:
            unfetched += 1
            continue
        under_way.add(Fetching(best, wanted._replace(holders=wanted.holders - {best})))
        effects.append(SendWant(best, wanted.blob))
    state = replace(state, under_way=frozenset(under_way), line=state.line[taken:], unfetched=unfetched)
    if state.under_way:
        return state, tuple(effects)
    after, finish = _finish(state)
    return after, (*effects, *finish)


def _finish(state: SyncRound) -> Step:
    finish = Finish(len(state.answered), len(state.peers), state.fetched, state.unfetched)
    return replace(state, phase=Phase.FINISHED), (finish,)
