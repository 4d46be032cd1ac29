"""Store one message on enough nodes of the mesh (SPEC 7.3, 7.10).

The machine puts to the first five nodes of the placement at once. Two verified receipts of distinct nodes that it
named make the message `sent`. With fewer than three after 30 s it goes outward, at most to the tenth node. It knows no
keys and no bytes: the host computes placements, verifies receipts and executes the effects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.model.ids import NodeId
from restante.policy.mesh.placement import COPIES, MOST_TRIED
from restante.policy.mesh.time_buckets import bucket_at
from restante.policy.mesh.voices import ENOUGH, voices

WRITE_QUORUM: Final = 2
WANTED_COPIES: Final = 3
WIDEN_AFTER_MS: Final = 30_000
GIVE_UP_AFTER_MS: Final = 60_000
"""Nodes that are asked later get as long as the first five."""
PASSED_OVER_MS: Final = 600_000
MOST_PASSED_OVER: Final = COPIES - WRITE_QUORUM
"""So many of the first five. The recipient asks the five, not those farther out; and a node of the other half of a
partition, or one that two exits called silent, is back long before the ten minutes have passed."""
MOST_CORRECTIONS: Final = 3
VOTES_TO_MOVE: Final = ENOUGH
"""So many voices must name the same other bucket. One node with a wrong clock moves nothing, nor does one exit that
answers for all nodes."""


class Phase(StrEnum):
    ASKING = "asking"
    """The first five nodes have time to answer."""
    WIDENING = "widening"
    """Fewer than three receipts: the next closest nodes are asked, too."""
    MOVING = "moving"
    """The bucket is wrong: the host computes the placement of another one."""
    STORED = "stored"
    FAILED = "failed"


class ReceiptVerified(NamedTuple):
    """This node signed the leaf that the sender computed itself."""

    node: NodeId


class PutFailed(NamedTuple):
    """The node could not be reached, refused, or sent a receipt that does not verify."""

    node: NodeId


class NotAsked(NamedTuple):
    """The sender's own way to the node failed, a circuit for example: nothing is known about the node."""

    node: NodeId


class WrongBucketAnswered(NamedTuple):
    """`through` is whoever alone passed the answer on: nobody, if the node was asked directly or two exits agree."""

    node: NodeId
    time_ms: int
    through: frozenset[bytes] = frozenset()


class NotResponsibleAnswered(NamedTuple):
    """`order` is the placement with the better descriptors that the node sent."""

    node: NodeId
    order: tuple[NodeId, ...]


class Moved(NamedTuple):
    """The placement of the bucket that `MoveTo` named."""

    order: tuple[NodeId, ...]


class TimePassed(NamedTuple):
    """A time that `WakeAt` named has come."""


Event = ReceiptVerified | PutFailed | NotAsked | WrongBucketAnswered | NotResponsibleAnswered | Moved | TimePassed


class Put(NamedTuple):
    """Send the envelope for the current bucket to this node."""

    node: NodeId


class MoveTo(NamedTuple):
    """Build the envelope for this bucket and report `Moved` with its placement."""

    bucket: int


class PassOver(NamedTuple):
    """Leave this node out of attempts until then."""

    node: NodeId
    until_ms: int


class ReportSent(NamedTuple):
    """The write quorum is reached: the message is `sent`."""


class Finish(NamedTuple):
    """The attempt is over. Fewer than two receipts mean E004 (STORAGE_FAILED)."""

    is_stored: bool


class WakeAt(NamedTuple):
    at_ms: int


Effect = Put | MoveTo | PassOver | ReportSent | Finish | WakeAt

_ACTIVE: Final = frozenset({Phase.ASKING, Phase.WIDENING, Phase.STORED, Phase.FAILED})
_WIDENED: Final = _ACTIVE - {Phase.ASKING}
_MOVING: Final = frozenset({Phase.MOVING})
_ANSWERS: Final = (ReceiptVerified, PutFailed, NotAsked, NotResponsibleAnswered)
_LATE: Final = (*_ANSWERS, WrongBucketAnswered, TimePassed)

TABLE: Final[Table[Phase]] = {
    Phase.ASKING: {
        **dict.fromkeys((*_ANSWERS, TimePassed), _ACTIVE),
        WrongBucketAnswered: _ACTIVE | _MOVING,
    },
    Phase.WIDENING: {
        **dict.fromkeys((*_ANSWERS, TimePassed), _WIDENED),
        WrongBucketAnswered: _WIDENED | _MOVING,
    },
    Phase.MOVING: {
        **dict.fromkeys((*_ANSWERS, WrongBucketAnswered), _MOVING),
        Moved: frozenset({Phase.ASKING, Phase.FAILED}),
        TimePassed: frozenset({Phase.MOVING, Phase.FAILED}),
    },
    # Late answers are normal and change nothing.
    Phase.STORED: dict.fromkeys(_LATE, frozenset({Phase.STORED})),
    Phase.FAILED: dict.fromkeys(_LATE, frozenset({Phase.FAILED})),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreQuorum:
    """One attempt to store one message. Nodes in `asked` are those that this request named, in this bucket."""

    phase: Phase
    bucket: int
    order: tuple[NodeId, ...]
    began_at_ms: int
    asked: frozenset[NodeId] = frozenset()
    stored: frozenset[NodeId] = frozenset()
    failed: frozenset[NodeId] = frozenset()
    not_asked: frozenset[NodeId] = frozenset()
    """Those of `failed` that nothing is known about."""
    passed_over: tuple[NodeId, ...] = ()
    """The one that failed last comes last."""
    votes: frozenset[tuple[int, NodeId, frozenset[bytes]]] = frozenset()
    """Which other bucket each node named, and who passed it on."""
    corrections: int = 0

    @property
    def is_sent(self) -> bool:
        return len(self.stored) >= WRITE_QUORUM

    @property
    def outstanding(self) -> frozenset[NodeId]:
        return self.asked - self.stored - self.failed


Step = tuple[StoreQuorum, tuple[Effect, ...]]


def start(order: Sequence[NodeId], *, bucket: int, now_ms: int, passed_over: tuple[NodeId, ...] = ()) -> Step:
    """Return a new attempt. `order` is the placement of the inbox key, at least ten nodes if there are as many;
    of `passed_over` the node that failed last comes last."""
    state = StoreQuorum(
        phase=Phase.ASKING,
        bucket=bucket,
        order=tuple(order[:MOST_TRIED]),
        began_at_ms=now_ms,
        passed_over=passed_over,
    )
    return _ask_first(state, now_ms)


def step(state: StoreQuorum, event: Event, *, now_ms: int) -> Step:
    following = legal_phases(TABLE, state.phase, event)
    after, effects = _step(state, event, now_ms)
    check_phase(following, after.phase, event)
    return after, effects


def _step(state: StoreQuorum, event: Event, now_ms: int) -> Step:
    if state.phase in (Phase.STORED, Phase.FAILED):
        return state, ()
    match event:
        case Moved(order):
            moved = replace(state, phase=Phase.ASKING, order=order[:MOST_TRIED], began_at_ms=now_ms)
            return _ask_first(moved, now_ms)
        case TimePassed() if state.phase is Phase.MOVING:
            return (state, ()) if now_ms < state.began_at_ms + GIVE_UP_AFTER_MS else _finish(state, now_ms)
        case TimePassed():
            return _time_passed(state, now_ms)
        case _ if state.phase is Phase.MOVING or event.node not in state.outstanding:
            # An answer for a bucket that was given up, a second one, or one of a node that was never named.
            return state, ()
        case ReceiptVerified(node):
            after = replace(state, stored=state.stored | {node})
            sent = (ReportSent(),) if after.is_sent and not state.is_sent else ()
            return _after_answer(after, now_ms, sent)
        case PutFailed(node):
            return _refused(state, node, now_ms)
        case NotAsked(node):
            after = replace(state, failed=state.failed | {node}, not_asked=state.not_asked | {node})
            return _after_answer(after, now_ms, ())
        case WrongBucketAnswered(node, time_ms, through):
            return _wrong_bucket(state, (bucket_at(time_ms), node, through), now_ms)
        case NotResponsibleAnswered(node, order):
            return _not_responsible(state, node, order, now_ms)


def _refused(state: StoreQuorum, node: NodeId, now_ms: int) -> Step:
    after = replace(state, failed=state.failed | {node})
    return _after_answer(after, now_ms, (PassOver(node, now_ms + PASSED_OVER_MS),))


def _wrong_bucket(state: StoreQuorum, vote: tuple[int, NodeId, frozenset[bytes]], now_ms: int) -> Step:
    """Move when enough voices name the same other bucket and none of the old bucket's copies would be wasted."""
    named, node, _ = vote
    votes = state.votes | {vote}
    after = replace(state, failed=state.failed | {node}, votes=votes)
    needed = min(VOTES_TO_MOVE, len(state.asked))
    agreeing = voices(through | {node} for bucket, node, through in votes if bucket == named)
    if agreeing >= needed and named != state.bucket and not state.is_sent and state.corrections < MOST_CORRECTIONS:
        moving = replace(
            after,
            phase=Phase.MOVING,
            bucket=named,
            asked=frozenset(),
            stored=frozenset(),
            failed=frozenset(),
            not_asked=frozenset(),
            votes=frozenset(),
            corrections=state.corrections + 1,
        )
        return moving, (MoveTo(named),)
    return _after_answer(after, now_ms, ())


def _not_responsible(state: StoreQuorum, node: NodeId, order: tuple[NodeId, ...], now_ms: int) -> Step:
    if state.corrections >= MOST_CORRECTIONS:
        return _refused(state, node, now_ms)
    after = replace(state, failed=state.failed | {node}, order=order[:MOST_TRIED], corrections=state.corrections + 1)
    missing = [each for each in _usable(after)[:COPIES] if each not in after.asked]
    asked, effects = _ask(after, missing)
    return _after_answer(asked, now_ms, effects)


def _time_passed(state: StoreQuorum, now_ms: int) -> Step:
    if now_ms >= state.began_at_ms + GIVE_UP_AFTER_MS:
        return _finish(state, now_ms)
    if now_ms >= state.began_at_ms + WIDEN_AFTER_MS and state.phase is Phase.ASKING:
        if len(state.stored) >= WANTED_COPIES:
            return _finish(state, now_ms)
        return _widen(replace(state, phase=Phase.WIDENING), now_ms)
    return state, ()


def _after_answer(state: StoreQuorum, now_ms: int, effects: tuple[Effect, ...]) -> Step:
    """Finish when nothing is left to wait for. Widen at once when all five have answered and too few of them stored.

    Nodes that were not asked are no reason to widen: they are well, and their recipient asks them and no others. The
    attempt fails, and the next one asks them.
    """
    is_first = state.phase is Phase.ASKING
    if is_first and state.outstanding:
        return state, effects
    if len(state.stored) + is_first * len(state.not_asked) >= WANTED_COPIES:
        after, more = _finish(state, now_ms)
    else:
        after, more = _widen(replace(state, phase=Phase.WIDENING), now_ms)
    return after, effects + more


def _widen(state: StoreQuorum, now_ms: int) -> Step:
    """Ask as many further nodes as are missing. What is asked since the widening and has not answered counts."""
    first = frozenset(_usable(state)[:COPIES])
    waiting = len(state.outstanding - first)
    further = [each for each in _usable(state) if each not in state.asked]
    asked, effects = _ask(state, further[: max(0, WANTED_COPIES - len(state.stored) - waiting)])
    return (asked, effects) if asked.outstanding else _finish(asked, now_ms)


def _ask_first(state: StoreQuorum, now_ms: int) -> Step:
    asked, effects = _ask(state, _usable(state)[:COPIES])
    if not asked.asked:
        return _finish(asked, now_ms)
    times = (WakeAt(now_ms + WIDEN_AFTER_MS), WakeAt(now_ms + GIVE_UP_AFTER_MS))
    return asked, (*effects, *times)


def _ask(state: StoreQuorum, nodes: Sequence[NodeId]) -> tuple[StoreQuorum, tuple[Effect, ...]]:
    return replace(state, asked=state.asked | frozenset(nodes)), tuple(Put(node) for node in nodes)


def _usable(state: StoreQuorum) -> list[NodeId]:
    """Return the placement without nodes that are passed over. They are tried last, not never: they may be all there
    are."""
    five = state.order[:COPIES]
    again = [node for node in state.passed_over if node in five][:-MOST_PASSED_OVER]
    last = [node for node in state.order if node in state.passed_over and node not in again]
    return [node for node in state.order if node not in last] + last


def _finish(state: StoreQuorum, now_ms: int) -> Step:
    unhelpful = state.outstanding | {node for _, node, _ in state.votes}
    silent = tuple(PassOver(node, now_ms + PASSED_OVER_MS) for node in sorted(unhelpful))
    phase = Phase.STORED if state.is_sent else Phase.FAILED
    return replace(state, phase=phase), (*silent, Finish(state.is_sent))
