"""The circuits of one simulated client: hosts core/circuit/pool and policy/circuits, as client/circuits/pool does.

It has calls back in place of awaits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from restante.core.circuit.pool import STORES, Build, PooledCircuit, Reuse, choose_circuit, due, rotate_at
from restante.model.errors import RestanteError
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.circuits.build_times import BuildTimes
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.circuits.passed_over import PassedOver
from restante.policy.circuits.path import Path, choose_path, usable_hops
from restante.policy.circuits.silence import Silence, judge_silence, silent_after_s
from restante.testing.circuit_simulation.client_circuit import SimulatedCircuit
from restante.testing.circuit_simulation.guards import SimulatedGuards
from restante.testing.circuit_simulation.world import World
from restante.testing.mesh_simulation.engine import Peer

BUILD_TRIES: Final = 3
"""These times and counts are those of client/circuits."""
WAIT_MS: Final = 10_000
TICK_MS: Final = 1_000
_NONE: Final[frozenset[NodeId]] = frozenset()


class NoCircuit(Enum):
    """Why a request gets none."""

    NO_HOPS_LEFT = auto()
    NOT_BUILT = auto()


Got = SimulatedCircuit | NoCircuit


@dataclass(slots=True, eq=False)
class _Member:
    number: int
    circuit: SimulatedCircuit
    built_at_ms: int
    used_at_ms: int
    rotate_at_ms: int
    use: str | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class _Request:
    use: str
    avoid: frozenset[NodeId]
    prefer_not: frozenset[NodeId]
    wants_exits: int
    deadline_ms: int
    done: Callable[[Got], None]


class _OneBuild:
    """One circuit that is built: in time, too late, or not at all. A late one is measured and kept as a spare."""

    def __init__(
        self, pool: "SimulatedPool", path: Path, done: Callable[[_Member | NoCircuit], None], again: Callable[[], None]
    ) -> None:
        self._pool = pool
        self._path = path
        self._done = done
        self._again = again
        self._is_over = False
        self._began_ms = pool.now_ms
        self._circuit: SimulatedCircuit | None = None

    def begin(self) -> None:
        self._pool.connect(self._path, self._connected)

    def _connected(self, is_connected: bool) -> None:
        if not is_connected:
            self._end()
            self._again()
            return
        self._began_ms = self._pool.now_ms
        self._circuit = self._pool.begin_circuit(self._path, self)
        self._pool.after(self._pool.times.timeout_s, self._timed_out)

    def built(self, circuit: SimulatedCircuit) -> None:
        member = self._pool.add(circuit, (self._pool.now_ms - self._began_ms) / 1_000)
        if self._end():
            self._done(member)
        self._pool.changed()

    def ended(self, circuit: SimulatedCircuit, failed_hop: int | None) -> None:
        self._pool.drop(circuit)
        if self._end():
            self._pool.note_failure(self._path, failed_hop)
            self._again()
        self._pool.changed()

    def _timed_out(self) -> None:
        if self._end():
            times = self._pool.times
            times.timed_out()
            if self._circuit is not None:
                has_guard = self._circuit.has_guard
                self._pool.note_failure(self._path, self._circuit.asked_hop if has_guard else None)
                if not has_guard:
                    self._pool.check_guard(self._circuit)
            self._pool.after(times.measured_s - times.timeout_s, self._give_up)
            self._again()

    def _give_up(self) -> None:
        if self._circuit is not None and not self._pool.has(self._circuit):
            self._circuit.close()

    def _end(self) -> bool:
        """Return whether the build was under way until now."""
        was_over, self._is_over = self._is_over, True
        if not was_over:
            self._pool.build_is_over()
        return not was_over


class SimulatedPool:
    """The circuits of one client."""

    def __init__(self, world: World, client: Peer, nodes: list[NodeDescriptor], limits: CircuitLimits) -> None:
        self.times = BuildTimes()
        self.built = self.failed = self.silent = 0
        self.on_rotating: Callable[[SimulatedCircuit], None] = lambda _circuit: None
        self._world = world
        self._engine = world.engine
        self._client = client
        self._hops = usable_hops(nodes)
        self._limits = limits
        self._choose = world.dice.randrange
        self._guards = SimulatedGuards(world, client, self._hops)
        self._passed_over = PassedOver()
        self._members: dict[SimulatedCircuit, _Member] = {}
        self._begun: dict[SimulatedCircuit, None] = {}
        self._waiting: list[_Request] = []
        self._builds_for: set[str] = set()
        self._building = 0
        self._last = 0
        self._active_until_ms = 0
        self._tick()

    def acquire(
        self,
        use: str,
        done: Callable[[Got], None],
        *,
        avoid: frozenset[NodeId] = _NONE,
        prefer_not: frozenset[NodeId] = _NONE,
        wants_exits: int = 1,
    ) -> None:
        """Call `done` with a circuit for this use, or with why there is none."""
        self._active_until_ms = self._engine.now_ms + self._limits.idle_ms
        request = _Request(
            use=use,
            avoid=avoid,
            prefer_not=prefer_not,
            wants_exits=wants_exits,
            deadline_ms=self._engine.now_ms + WAIT_MS,
            done=done,
        )
        self._serve(request)

    def _serve(self, request: _Request) -> None:
        choice = choose_circuit(
            self._pooled(),
            request.use,
            now_ms=self._engine.now_ms,
            limits=self._limits,
            building=self._building,
            avoid=request.avoid,
            wants_exits=request.wants_exits,
        )
        match choice:
            case Reuse(number):
                self._use(self._member(number), request)
            case Build(evicted, avoid_exits) if request.use not in self._builds_for:
                if evicted is not None:
                    self._member(evicted).circuit.close()
                self._build_for(request, avoid_exits)
            case _ if self._engine.now_ms >= request.deadline_ms:
                request.done(NoCircuit.NOT_BUILT)
            case _:
                self._waiting.append(request)

    def _use(self, member: _Member, request: _Request) -> None:
        member.use = request.use
        member.used_at_ms = self._engine.now_ms
        request.done(member.circuit)

    def _build_for(self, request: _Request, avoid_exits: frozenset[NodeId]) -> None:
        self._builds_for.add(request.use)
        used = frozenset(
            hop for each in self._members.values() if each.use == request.use for hop in each.circuit.hops[1:]
        )

        def built(member: _Member | NoCircuit) -> None:
            self._builds_for.discard(request.use)
            if isinstance(member, NoCircuit):
                request.done(member)
            else:
                self._use(member, request)
            self.changed()

        self._build(request.avoid, avoid_exits, request.prefer_not | used, built)

    def _build(
        self,
        avoid: frozenset[NodeId],
        avoid_exits: frozenset[NodeId],
        prefer_not: frozenset[NodeId],
        done: Callable[[_Member | NoCircuit], None],
        tries: int = BUILD_TRIES,
    ) -> None:
        """Build a circuit, over other hops if the first ones fail."""
        path = self._path(avoid, avoid_exits, prefer_not) if tries else None
        if path is None:
            done(NoCircuit.NO_HOPS_LEFT if tries else NoCircuit.NOT_BUILT)
            return

        def again() -> None:
            self.failed += 1
            self._build(avoid, avoid_exits, prefer_not, done, tries - 1)

        self._building += 1
        _OneBuild(self, path, done, again).begin()

    def begin_circuit(self, path: Path, build: "_OneBuild") -> SimulatedCircuit:
        circuit = SimulatedCircuit(
            self._world, self._client, path, on_built=build.built, on_ended=build.ended, on_freed=self.changed
        )
        self._begun[circuit] = None
        return circuit

    def connect(self, path: Path, done: Callable[[bool], None]) -> None:
        self._guards.connect(path.guard.node_id, done, within_s=silent_after_s(self.times.timeout_s))

    def check_guard(self, circuit: SimulatedCircuit) -> None:
        """End all circuits over a guard that gives no sign of life."""
        guard, within_s = circuit.hops[0], silent_after_s(self.times.timeout_s)

        def on_silent() -> None:
            self._world.hang_up(self._client, self._world.hops[guard].node)
            for each in [each for each in self._begun if each.hops[0] == guard]:
                each.hang_up()

        self._guards.check(guard, within_s=within_s, on_silent=on_silent)

    def build_is_over(self) -> None:
        self._building -= 1

    def _path(
        self, avoid: frozenset[NodeId], avoid_exits: frozenset[NodeId], prefer_not: frozenset[NodeId]
    ) -> Path | None:
        failed = self._passed_over.of(len(self._hops), now_ms=self._engine.now_ms)
        guards = self._guards.in_order()
        for passed_over in (failed, _NONE):
            try:
                return choose_path(
                    self._hops,
                    guards,
                    choose=self._choose,
                    avoid=avoid | (passed_over - {each.node_id for each in guards}),
                    avoid_exits=avoid_exits,
                    prefer_not=prefer_not | passed_over,
                )
            except RestanteError:
                continue
        return None

    def add(self, circuit: SimulatedCircuit, took_s: float) -> _Member:
        self.times.built(took_s)
        self._guards.records.built(circuit.hops[0])
        self.built += 1
        self._last += 1
        now_ms = self._engine.now_ms
        rotate_ms = rotate_at(now_ms, self._world.dice.uniform(-1, 1))
        member = self._members[circuit] = _Member(self._last, circuit, now_ms, now_ms, rotate_ms)
        return member

    def note_failure(self, path: Path, hop: int | None) -> None:
        if hop == 1:
            self._guards.failed(path.guard.node_id)
            return
        if hop is not None:
            self._passed_over.add(path.hops[hop - 1].node_id, now_ms=self._engine.now_ms)
        self._failed_behind(path.guard.node_id, was_built=False)

    def _failed_behind(self, guard: NodeId, *, was_built: bool) -> None:
        now_ms = self._engine.now_ms
        if self._guards.records.failed_behind(guard, was_built=was_built, now_ms=now_ms):
            self._passed_over.clear()
            for each in self._members.values():
                if each.circuit.hops[0] == guard:
                    each.rotate_at_ms = min(each.rotate_at_ms, now_ms)

    def drop(self, circuit: SimulatedCircuit) -> None:
        if self._members.pop(circuit, None) is not None and circuit.was_cut:
            self._failed_behind(circuit.hops[0], was_built=True)
        self._begun.pop(circuit, None)
        if circuit.is_guard_lost:
            self._guards.lost(circuit.hops[0])

    def has(self, circuit: SimulatedCircuit) -> bool:
        return circuit in self._members

    @property
    def now_ms(self) -> int:
        return self._engine.now_ms

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        self._engine.after(1_000 * delay_s, call)

    def _pooled(self) -> list[PooledCircuit]:
        return [
            PooledCircuit(
                number=each.number,
                hops=each.circuit.hops,
                use=each.use,
                streams=each.circuit.streams,
                built_at_ms=each.built_at_ms,
                used_at_ms=each.used_at_ms,
                rotate_at_ms=each.rotate_at_ms,
                is_spent=each.circuit.is_full,
            )
            for each in self._members.values()
        ]

    def _member(self, number: int) -> _Member:
        return next(each for each in self._members.values() if each.number == number)

    def changed(self) -> None:
        """Look again at the requests that wait, in the next event."""
        if self._waiting:
            self._engine.after(0, self._serve_waiting)

    def _serve_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._serve(request)

    def _watch_silent(self) -> None:
        limit_s = silent_after_s(self.times.timeout_s)
        for circuit, member in tuple(self._members.items()):
            if circuit.owed_since_ms is None:
                continue
            owed_s, is_storing = (self._engine.now_ms - circuit.owed_since_ms) / 1_000, member.use == STORES
            match judge_silence(owed_s, limit_s=limit_s, is_storing=is_storing, is_probed=circuit.is_probed):
                case Silence.PROBE:
                    circuit.probe()
                case Silence.GIVE_UP:
                    self.silent += 1
                    self._failed_behind(circuit.hops[0], was_built=True)
                    self.check_guard(circuit)
                    circuit.close()

    def _tick(self) -> None:
        self._watch_silent()
        self._serve_waiting()
        now_ms = self._engine.now_ms
        todo = due(
            self._pooled(),
            now_ms=now_ms,
            limits=self._limits,
            building=self._building,
            is_active=now_ms < self._active_until_ms,
        )
        for number in todo.destroy:
            self._member(number).circuit.close()
        for number in todo.rotate:
            self.on_rotating(self._member(number).circuit)
        for _ in range(todo.build_spares):
            self._build(_NONE, _NONE, _NONE, lambda _member: None)
        self._engine.after(TICK_MS, self._tick)
