"""Which circuit serves a request, which ones to build, to rotate and to end (SPEC 11.2, 11.3, 11.6).

A circuit has one use: STOREs, or the inner connections of one inbox, or of one record lookup. Uses are labels; two
requests with equal labels may share a circuit, no others. Values in, a decision out: the host builds and destroys.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from restante.core.circuit.flow import MAX_STREAMS
from restante.model.ids import NodeId
from restante.policy.circuits.limits import GONE_MS, ROTATE_JITTER_MS, ROTATE_MS, CircuitLimits

STORES: Final = "stores"
"""The use of circuits that carry STOREs."""
ROTATE_LATEST_MS: Final = GONE_MS - 30_000
"""The last time to rotate leaves half a minute for the new subscription."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledCircuit:
    """What the pool knows of one built circuit. `use` is None for a spare. One that is spent has carried as many
    messages as it may for now (SPEC 11.2): a new one takes its place."""

    number: int
    hops: tuple[NodeId, ...]
    use: str | None
    streams: int
    built_at_ms: int
    used_at_ms: int
    rotate_at_ms: int
    is_spent: bool = False


class Reuse(NamedTuple):
    number: int


class Build(NamedTuple):
    """Build a circuit for this request; destroy `evicted` first, if it is not None, to make room."""

    evicted: int | None = None
    avoid_exits: frozenset[NodeId] = frozenset()


class Wait(NamedTuple):
    """All circuits are in use: wait until one ends."""


Choice = Reuse | Build | Wait


def rotate_at(built_at_ms: int, dice: float) -> int:
    """Return when to rotate: after 10 min ± 2. `dice` is from [-1, 1]."""
    return built_at_ms + min(ROTATE_MS + round(dice * ROTATE_JITTER_MS), ROTATE_LATEST_MS)


def is_fresh(circuit: PooledCircuit, *, now_ms: int) -> bool:
    """Return whether new streams may be opened on it."""
    return now_ms < circuit.rotate_at_ms


def choose_circuit(
    circuits: Sequence[PooledCircuit],
    use: str,
    *,
    now_ms: int,
    limits: CircuitLimits,
    building: int = 0,
    avoid: frozenset[NodeId] = frozenset(),
    wants_exits: int = 1,
) -> Choice:
    """Choose for a request to nodes of `avoid`, none of which is reached over a circuit it is a hop of (SPEC 11.1).

    A use that wants two exits gets a second circuit with another exit before one is used twice (SPEC 11.6).
    """
    own = [each for each in circuits if each.use == use and is_fresh(each, now_ms=now_ms)]
    exits = frozenset(each.hops[-1] for each in own)
    avoid_exits = exits if len(exits) < wants_exits else frozenset()
    fitting = [
        each
        for each in circuits
        if each.use in (use, None)
        and is_fresh(each, now_ms=now_ms)
        and not each.is_spent
        and each.streams < MAX_STREAMS
        and avoid.isdisjoint(each.hops)
        and each.hops[-1] not in avoid_exits
    ]
    if fitting:
        # One that has this use already before a spare, the least loaded first.
        best = min(fitting, key=lambda each: (each.use is None, each.streams, each.number))
        return Reuse(best.number)
    if len(circuits) + building < limits.pool:
        return Build(avoid_exits=avoid_exits)
    unused = [each for each in circuits if not each.streams]
    if unused:
        oldest = min(unused, key=lambda each: (not each.is_spent, each.use is not None, each.used_at_ms))
        return Build(oldest.number, avoid_exits)
    return Wait()


class Due(NamedTuple):
    """What the passing of time demands."""

    destroy: tuple[int, ...]
    rotate: tuple[int, ...]
    """Circuits whose subscriptions are to be opened elsewhere now."""
    build_spares: int


def due(
    circuits: Iterable[PooledCircuit], *, now_ms: int, limits: CircuitLimits, building: int = 0, is_active: bool = True
) -> Due:
    """Decide what to do now. Spares are built while the client is active or receives: its next message finds one."""
    destroy: list[int] = []
    rotate: list[int] = []
    kept = spares = 0
    circuits = list(circuits)
    is_active = is_active or any(each.streams for each in circuits)
    for each in circuits:
        is_old = not is_fresh(each, now_ms=now_ms)
        # Idle time starts at the first use: an unused spare waits until it is rotated (NETWORK 4).
        is_idle = each.use is not None and not each.streams and now_ms >= each.used_at_ms + limits.idle_ms
        if now_ms >= each.built_at_ms + GONE_MS or is_idle or (is_old and not each.streams):
            destroy.append(each.number)
            continue
        kept += 1
        if is_old:
            rotate.append(each.number)
        spares += each.use is None and not is_old
    room = limits.pool - kept - building
    wanted = min(limits.spares - spares - building, room) if is_active else 0
    return Due(tuple(destroy), tuple(rotate), max(0, wanted))
