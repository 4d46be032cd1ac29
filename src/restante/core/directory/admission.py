"""Which descriptors enter a node's directory: those of nodes that this node has dialled (SPEC 7.1, decision 0033).

A signature proves a key, not that a node listens anywhere. So a descriptor of an unknown node, or with other endpoints
than before, waits until this node has dialled every endpoint that it names, and each proved the node key. Only then
does it count in placement and is passed on: what exits and pings dial later has answered with that key. A later issue
with the same endpoints needs no dial for a day.

Candidates wait in a queue for each source that brought them, and sources take turns: one that floods delays itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from restante.core.directory.descriptor_set import MOST_DESCRIPTORS, VALID_MS
from restante.core.transitions import Table, check_phase, legal_phases
from restante.model.ids import NodeId
from restante.model.node_descriptor import Endpoint, NodeDescriptor
from restante.model.sources import Source
from restante.policy.circuits.token_bucket import TokenBucket
from restante.policy.mesh.dialling import DialPace, back_off_ms

MOST_DIALS: Final = 16
"""Checks under way at once."""
MOST_DIALS_OF_SOURCE: Final = 4
"""So that endpoints which swallow packets leave the other places to other sources."""
MOST_WAITING: Final = 2_048
MOST_WAITING_OF_SOURCE: Final = 256
"""As many as a page of a directory has descriptors."""
ISSUES_PER_S: Final = 1 / 60
ISSUE_BURST: Final = 3
"""Issues of one node that are taken and passed on: three at once, for one that starts and leaves, then one a minute. Of
those that come faster the newest waits."""
CHECKED_FOR_MS: Final = 24 * 3_600_000
"""A node that left its endpoints a day ago must not count for as long as its key signs descriptors."""
TURN_MS: Final = 50
_LONGEST_WAIT_MS: Final = 60_000


class Phase(StrEnum):
    ABSENT = "absent"
    """Nothing is to be decided about the node: it is in the directory, or unknown."""
    WAITING = "waiting"
    """For its turn, for the end of a back-off, or because an issue was taken a moment ago."""
    DIALLING = "dialling"


class Offered(NamedTuple):
    """A descriptor came that is newer than the one held, with a valid signature."""

    descriptor: NodeDescriptor
    source: Source


class Turn(NamedTuple):
    """The candidate is the next one."""


class Dialled(NamedTuple):
    """The node proved its key at each endpoint that it names."""


class DialFailed(NamedTuple):
    pass


class GivenUp(NamedTuple):
    """The candidate waited for longer than a descriptor is valid, or another one needs its place."""


Event = Offered | Turn | Dialled | DialFailed | GivenUp


class Dial(NamedTuple):
    """Dial each endpoint of the node, then report `Dialled` or `DialFailed`."""

    node: NodeDescriptor


class Admit(NamedTuple):
    """Take the descriptor into the directory and pass it on."""

    node: NodeDescriptor


Effect = Dial | Admit

_ABSENT: Final = frozenset({Phase.ABSENT})
_WAITING: Final = frozenset({Phase.WAITING})
TABLE: Final[Table[Phase]] = {
    # A known node at its known endpoints is admitted at once; without room nothing happens.
    Phase.ABSENT: {Offered: _ABSENT | _WAITING},
    Phase.WAITING: {
        Offered: _WAITING,
        Turn: frozenset({Phase.DIALLING, Phase.ABSENT}),
        GivenUp: _ABSENT,
    },
    Phase.DIALLING: {
        Offered: frozenset({Phase.DIALLING}),
        # An issue with other endpoints that came in the meantime waits for a dial of its own.
        Dialled: _ABSENT | _WAITING,
        DialFailed: _WAITING,
    },
}


@dataclass(slots=True)
class _Candidate:
    descriptor: NodeDescriptor
    source: Source
    heard_at_ms: int
    not_before_ms: int
    failures: int = 0
    moved: NodeDescriptor | None = None
    """An issue with other endpoints that came while the old ones were dialled."""


@dataclass(slots=True)
class _Known:
    """A node in the directory: where and when it was dialled, and how many issues of it may be taken."""

    endpoints: tuple[Endpoint, ...]
    dialled_at_ms: int
    issues: TokenBucket


class Admission:
    """Times are of a clock that never jumps, in milliseconds."""

    __slots__ = ("_dialling", "_known", "_pace", "_queues", "_waiting")

    def __init__(self, pace: DialPace) -> None:
        self._pace = pace
        self._queues: dict[Source, dict[NodeId, _Candidate]] = {}
        """Sources in the order of their turns, each with its candidates, the first to come first."""
        self._waiting: dict[NodeId, _Candidate] = {}
        self._dialling: dict[NodeId, _Candidate] = {}
        self._known: dict[NodeId, _Known] = {}

    def __len__(self) -> int:
        """Return how many candidates wait or are being dialled."""
        return len(self._waiting) + len(self._dialling)

    def phase_of(self, node: NodeId) -> Phase:
        if node in self._dialling:
            return Phase.DIALLING
        return Phase.WAITING if node in self._waiting else Phase.ABSENT

    def is_unchecked(self, node: NodeId) -> bool:
        """Return whether the first dial of this candidate has not ended."""
        candidate = self._waiting.get(node)
        if candidate is None:
            return node in self._dialling
        known = self._known.get(node)
        is_known = known is not None and known.endpoints == candidate.descriptor.endpoints
        return not candidate.failures and not is_known

    def knows(self, descriptor: NodeDescriptor) -> bool:
        """Return whether this issue, or a newer one, already waits: its signature need not be checked."""
        candidate = self._waiting.get(descriptor.node_id) or self._dialling.get(descriptor.node_id)
        if candidate is None:
            return False
        newest = candidate.moved or candidate.descriptor
        return newest.issued_at_ms >= descriptor.issued_at_ms

    def step(self, node: NodeId, event: Event, *, now_ms: int) -> tuple[Effect, ...]:
        following = legal_phases(TABLE, self.phase_of(node), event)
        effects = self._step(node, event, now_ms)
        check_phase(following, self.phase_of(node), event)
        return effects

    def take_turns(self, now_ms: int) -> tuple[Effect, ...]:
        """Start as many dials as the bounds allow."""
        for node in [each for each, it in self._waiting.items() if it.heard_at_ms + VALID_MS <= now_ms]:
            self.step(node, GivenUp(), now_ms=now_ms)
        effects: list[Effect] = []
        turns = {source: iter(list(queue.values())) for source, queue in self._queues.items()}
        while turns:
            for source, left in list(turns.items()):
                candidate = self._next_of(source, left, now_ms)
                if candidate is None:
                    del turns[source]
                    continue
                effects += self.step(candidate.descriptor.node_id, Turn(), now_ms=now_ms)
                if source in self._queues:  # the others come first the next time
                    self._queues[source] = self._queues.pop(source)
        return tuple(effects)

    def wait_ms(self, now_ms: int) -> int | None:
        """Return when `take_turns` is to be called again; None if nothing waits."""
        if not self._waiting:
            return None
        first_ms = min(each.not_before_ms for each in self._waiting.values())
        return min(max(TURN_MS, first_ms - now_ms), _LONGEST_WAIT_MS)

    def _step(self, node: NodeId, event: Event, now_ms: int) -> tuple[Effect, ...]:
        match event:
            case Offered(descriptor, source):
                return self._offered(descriptor, source, now_ms)
            case Turn():
                return self._begin(self._waiting[node], now_ms)
            case Dialled():
                return self._dialled(self._dialling.pop(node), now_ms)
            case DialFailed():
                self._failed(self._dialling.pop(node), now_ms)
            case GivenUp():
                self._remove(self._waiting[node])
        return ()

    def _offered(self, descriptor: NodeDescriptor, source: Source, now_ms: int) -> tuple[Effect, ...]:
        node = descriptor.node_id
        if self.knows(descriptor):
            self._move(node, source)
        elif node in self._dialling:
            candidate = self._dialling[node]
            if candidate.descriptor.endpoints == descriptor.endpoints:
                candidate.descriptor, candidate.moved = descriptor, None
            else:
                candidate.moved = descriptor
        elif node in self._waiting:
            candidate = self._waiting[node]
            if candidate.descriptor.endpoints != descriptor.endpoints:
                candidate.failures, candidate.not_before_ms = 0, self._earliest(node, now_ms)
            candidate.descriptor, candidate.heard_at_ms = descriptor, now_ms
            self._move(node, source)
        elif self._is_checked(descriptor, now_ms) and self._earliest(node, now_ms) <= now_ms:
            return self._admit(descriptor, now_ms)
        elif descriptor.endpoints and self._make_room(source):
            self._add(_Candidate(descriptor, source, now_ms, self._earliest(node, now_ms)))
        return ()

    def _begin(self, candidate: _Candidate, now_ms: int) -> tuple[Effect, ...]:
        self._remove(candidate)
        if self._is_checked(candidate.descriptor, now_ms):
            return self._admit(candidate.descriptor, now_ms)
        self._pace.spend(candidate.source, _dials(candidate.descriptor), now_ms / 1_000)
        self._dialling[candidate.descriptor.node_id] = candidate
        return (Dial(candidate.descriptor),)

    def _dialled(self, candidate: _Candidate, now_ms: int) -> tuple[Effect, ...]:
        node = candidate.descriptor
        before = self._known.pop(node.node_id, None)
        issues = before.issues if before else TokenBucket(per_s=ISSUES_PER_S, burst=ISSUE_BURST, now_s=now_ms / 1_000)
        self._known[node.node_id] = _Known(node.endpoints, now_ms, issues)
        while len(self._known) > MOST_DESCRIPTORS:
            del self._known[next(iter(self._known))]
        effects = self._admit(node, now_ms)
        if candidate.moved is not None:
            earliest_ms = self._earliest(node.node_id, now_ms)
            self._add(_Candidate(candidate.moved, candidate.source, now_ms, earliest_ms))
        return effects

    def _failed(self, candidate: _Candidate, now_ms: int) -> None:
        candidate.failures += 1
        candidate.not_before_ms = now_ms + back_off_ms(candidate.failures)
        if candidate.moved is not None:
            candidate.descriptor, candidate.moved = candidate.moved, None
            candidate.failures, candidate.not_before_ms = 0, now_ms
        self._add(candidate)

    def _admit(self, descriptor: NodeDescriptor, now_ms: int) -> tuple[Effect, ...]:
        self._known[descriptor.node_id].issues.spend(1, now_ms / 1_000)
        return (Admit(descriptor),)

    def _is_checked(self, descriptor: NodeDescriptor, now_ms: int) -> bool:
        known = self._known.get(descriptor.node_id)
        is_same = known is not None and known.endpoints == descriptor.endpoints
        return known is not None and is_same and now_ms < known.dialled_at_ms + CHECKED_FOR_MS

    def _earliest(self, node: NodeId, now_ms: int) -> int:
        known = self._known.get(node)
        has_any = known is None or known.issues.has(1, now_ms / 1_000)
        return now_ms if known is None or has_any else now_ms + known.issues.wait_ms(1)

    def _next_of(self, source: Source, left: Iterator[_Candidate], now_ms: int) -> _Candidate | None:
        """Return the next candidate of a source that may be dialled, or need not be. What the bounds stop now, they
        stop for the rest of this moment, so each candidate is looked at once."""
        of_source = sum(each.source == source for each in self._dialling.values())
        may_dial = len(self._dialling) < MOST_DIALS and of_source < MOST_DIALS_OF_SOURCE
        may_dial = may_dial and self._pace.allows_source(source, now_ms / 1_000)
        for candidate in left:
            if candidate.not_before_ms > now_ms:
                continue
            if self._is_checked(candidate.descriptor, now_ms):
                return candidate
            if may_dial and self._pace.allows(source, _dials(candidate.descriptor), now_ms / 1_000):
                return candidate
        return None

    def _make_room(self, source: Source) -> bool:
        """Return whether the source may have one more candidate. One that failed most often goes first; if all places
        are taken, one of the source that has most."""
        own = self._queues.get(source, {})
        if len(own) >= MOST_WAITING_OF_SOURCE:
            crowd = own
        elif len(self) >= MOST_WAITING:
            crowd = max(self._queues.values(), key=len, default={})
        else:
            return True
        if not crowd:
            return False
        victim = _most_failed(crowd.values())
        if crowd is own and not victim.failures:
            return False
        self._remove(victim)
        return True

    def _move(self, node: NodeId, source: Source) -> None:
        """Let a candidate wait in the shorter queue: one that floods does not delay what others bring, too."""
        candidate = self._waiting.get(node)
        if candidate is None or candidate.source == source:
            return
        if len(self._queues.get(source, ())) + 1 < len(self._queues[candidate.source]):
            self._remove(candidate)
            candidate.source = source
            self._add(candidate)

    def _add(self, candidate: _Candidate) -> None:
        self._waiting[candidate.descriptor.node_id] = candidate
        self._queues.setdefault(candidate.source, {})[candidate.descriptor.node_id] = candidate

    def _remove(self, candidate: _Candidate) -> None:
        node = candidate.descriptor.node_id
        del self._waiting[node]
        del self._queues[candidate.source][node]
        if not self._queues[candidate.source]:
            del self._queues[candidate.source]


def _dials(node: NodeDescriptor) -> list[bytes]:
    """Return the network of each dial that checks a node."""
    return [each.network for each in dict.fromkeys(node.endpoints)]


def _most_failed(candidates: Iterable[_Candidate]) -> _Candidate:
    """Return the candidate that failed most often; of equal ones the last to come."""
    return max(enumerate(candidates), key=lambda each: (each[1].failures, each[0]))[1]
