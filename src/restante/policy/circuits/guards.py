"""Which guards a client keeps, and for how long (SPEC 11.4). The client stores the state in its file.

Few guards kept for long: each new guard is another chance to choose one of an adversary. So a guard that does not
answer is not replaced, only passed over for a while; it leaves at its time, or when the directory has lacked it for
long. The same holds for one over which most circuits fail: it may end those whose other hops are not its operator's.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.circuits.path import Choose, are_apart

GUARDS: Final = 3
DAY_MS: Final = 86_400_000
KEPT_MIN_MS: Final = 60 * DAY_MS
KEPT_SPREAD_MS: Final = 30 * DAY_MS
ABSENT_MS: Final = 7 * DAY_MS
"""A guard that no directory has named for this long is replaced."""
PASSED_OVER_MS: Final = 600_000
SAMPLE_MIN: Final = 3
SAMPLE_MAX: Final = 20
SAMPLE_SHARE: Final = 5
JUDGED_CIRCUITS: Final = 8
MOST_FAILED: Final = 6
"""Of the last 8 circuits over a guard. Hops that fail on purpose get an honest guard there only if most hops do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    node_id: NodeId
    chosen_at_ms: int
    kept_until_ms: int
    last_listed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardState:
    """`sample` are the nodes that guards are chosen from; the first of `guards` that answers is in use."""

    sample: tuple[NodeId, ...] = ()
    guards: tuple[Guard, ...] = ()


class GuardRecords:
    """When each guard failed, and what became of the last circuits over it."""

    __slots__ = ("_has_worked", "_unreached_at_ms", "failed_at_ms")

    def __init__(self) -> None:
        self.failed_at_ms: dict[NodeId, int] = {}
        self._unreached_at_ms: dict[NodeId, int] = {}
        self._has_worked: defaultdict[NodeId, deque[bool]] = defaultdict(lambda: deque(maxlen=JUDGED_CIRCUITS))

    def connected(self, guard: NodeId) -> None:
        self.failed_at_ms.pop(guard, None)
        self._unreached_at_ms.pop(guard, None)

    def unreached(self, *, now_ms: int) -> frozenset[NodeId]:
        """Return the guards that failed within 10 min by themselves: no other node said so."""
        return frozenset(
            guard for guard, at_ms in self._unreached_at_ms.items() if is_passed_over(at_ms, now_ms=now_ms)
        )

    def failed(self, guard: NodeId, *, now_ms: int) -> None:
        """It can't be dialled, is silent or ended a circuit: use the other guards first for a while."""
        self.failed_at_ms[guard] = self._unreached_at_ms[guard] = now_ms

    def built(self, guard: NodeId) -> None:
        self._has_worked[guard].append(True)

    def failed_behind(self, guard: NodeId, *, was_built: bool, now_ms: int) -> bool:
        """A circuit failed behind this guard; return whether the other guards are used first from now on.

        One that was built, and was cut or is silent, counts as failed instead of as built.
        """
        has_worked = self._has_worked[guard]
        if was_built and True in has_worked:
            has_worked.remove(True)
        has_worked.append(False)
        if has_worked.count(False) < MOST_FAILED or is_passed_over(self.failed_at_ms.get(guard), now_ms=now_ms):
            return False
        self.failed_at_ms[guard] = now_ms
        return True


def sample_size(hops: int) -> int:
    return max(SAMPLE_MIN, min(SAMPLE_MAX, hops // SAMPLE_SHARE))


def refresh_guards(
    state: GuardState,
    hops: Sequence[NodeDescriptor],
    *,
    now_ms: int,
    choose: Choose,
    is_private: bool = False,
) -> GuardState:
    """Return the state for this directory: expired and vanished guards replaced, the sample filled up."""
    listed = {node.node_id: node for node in hops}
    kept = [
        replace(guard, last_listed_ms=now_ms) if guard.node_id in listed else guard
        for guard in state.guards
        if now_ms < guard.kept_until_ms and (guard.node_id in listed or now_ms < guard.last_listed_ms + ABSENT_MS)
    ]
    gone = {guard.node_id for guard in state.guards} - {guard.node_id for guard in kept}
    sample = [node for node in state.sample if node in listed and node not in gone]
    _fill_sample(sample, listed, choose)
    _fill_guards(kept, sample, listed, now_ms=now_ms, choose=choose, is_private=is_private)
    if len(kept) < GUARDS:  # the sample is of too few families: look further
        _fill_guards(kept, sorted(listed), listed, now_ms=now_ms, choose=choose, is_private=is_private)
    return GuardState(sample=tuple(sample), guards=tuple(kept))


def is_passed_over(failed_at_ms: int | None, *, now_ms: int) -> bool:
    """Return whether a guard that failed then comes after the others now."""
    return failed_at_ms is not None and now_ms < failed_at_ms + PASSED_OVER_MS


def usable_guards(
    state: GuardState,
    hops: Iterable[NodeDescriptor],
    *,
    failed_at_ms: Mapping[NodeId, int],
    now_ms: int,
) -> list[NodeDescriptor]:
    """Return the guards in the order in which to use them. One that failed within 10 min comes last, not never.

    Of several that failed, the one whose failure is oldest comes first: the others may still be down.
    """
    listed = {node.node_id: node for node in hops}
    present = [listed[guard.node_id] for guard in state.guards if guard.node_id in listed]

    def failed_ms(node: NodeDescriptor) -> int:
        at_ms = failed_at_ms.get(node.node_id, 0)
        return at_ms if is_passed_over(at_ms, now_ms=now_ms) else 0

    return sorted(present, key=failed_ms)  # stable: the order of choice otherwise


def _fill_sample(sample: list[NodeId], listed: Mapping[NodeId, NodeDescriptor], choose: Choose) -> None:
    others = sorted(listed.keys() - set(sample))
    while others and len(sample) < sample_size(len(listed)):
        sample.append(others.pop(choose(len(others))))


def _fill_guards(
    kept: list[Guard],
    candidates: Sequence[NodeId],
    listed: Mapping[NodeId, NodeDescriptor],
    *,
    now_ms: int,
    choose: Choose,
    is_private: bool,
) -> None:
    """Add guards of other families and networks than those kept."""
    left = [node for node in candidates if node not in {guard.node_id for guard in kept}]
    while left and len(kept) < GUARDS:
        node = left.pop(choose(len(left)))
        others = [listed[guard.node_id] for guard in kept if guard.node_id in listed]
        if all(are_apart(listed[node], other, is_private=is_private) for other in others):
            until_ms = now_ms + KEPT_MIN_MS + choose(KEPT_SPREAD_MS + 1)
            kept.append(Guard(node_id=node, chosen_at_ms=now_ms, kept_until_ms=until_ms, last_listed_ms=now_ms))
