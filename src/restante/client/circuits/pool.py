"""The client's circuits: built, chosen, rotated and ended as `core.circuit.pool` decides (SPEC 11.2, 11.3)."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from restante.client.circuits.circuit import HOP_NAMES, CircuitFailed, ClientCircuit, NoHopsLeft, short_key
from restante.client.circuits.guard_connections import GuardConnections, GuardStore, uniform_choice
from restante.client.circuits.status import CircuitStatus, PoolStatus
from restante.client.circuits.turns import WAIT_S, Turns, in_time
from restante.core.circuit.pool import STORES, Build, PooledCircuit, Reuse, choose_circuit, due, rotate_at
from restante.model.errors import RestanteError
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.circuits.build_backoff import BuildBackoff, Purpose
from restante.policy.circuits.build_times import BuildTimes
from restante.policy.circuits.client_rates import ClientRates
from restante.policy.circuits.create_limits import own_meter
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.circuits.passed_over import PassedOver
from restante.policy.circuits.path import NoPath, Path, choose_path, relatives, usable_hops
from restante.policy.circuits.silence import Silence, judge_silence, silent_after_s
from restante.policy.connection_limits import RelayLimits
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed

TRIES: Final = 3
TICK_S: Final = 1.0
_NONE: Final[frozenset[NodeId]] = frozenset()


@dataclass(slots=True, eq=False)
class _Member:
    number: int
    circuit: ClientCircuit
    use: str | None
    built_at_ms: int
    used_at_ms: int
    rotate_at_ms: int
    build_s: float


class CircuitPool:
    """`nodes` returns the descriptors that are valid now. Call `start`, and `close` when done."""

    def __init__(
        self,
        nodes: Callable[[], Sequence[NodeDescriptor]],
        guards: GuardStore,
        *,
        limits: CircuitLimits,
        relay_limits: RelayLimits,
        clock: Clock,
        entropy: Entropy,
        is_private: bool = False,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._nodes = nodes
        self._limits = limits
        self._clock = clock
        self._entropy = entropy
        self._is_private = is_private
        self._choose = uniform_choice(entropy.draw)
        self._guards = GuardConnections(
            guards,
            choose=self._choose,
            limits=limits,
            relay_limits=relay_limits,
            clock=clock,
            entropy=entropy,
            is_private=is_private,
        )
        self.rates = ClientRates(limits, now_s=self._loop.time())
        self.times = BuildTimes()
        self._requests = own_meter(self._loop.time())
        self.failures: Counter[str] = Counter()
        self.built = self.silent = 0
        self.on_rotating: Callable[[ClientCircuit], None] = lambda _circuit: None
        self._members: dict[ClientCircuit, _Member] = {}
        self._building = 0
        self._builds_for: set[str] = set()
        self._turns = Turns()
        self._backoff = BuildBackoff()
        self._last_failure = CircuitFailed("no circuit could be built")
        self._last = 0
        self._active_until_ms = 0
        self._changed = asyncio.Event()
        self._passed_over = PassedOver()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for circuit in tuple(self._members):
            circuit.close()
        await self._guards.close()

    async def acquire(
        self,
        use: str,
        *,
        avoid: frozenset[NodeId] = _NONE,
        prefer_not: frozenset[NodeId] = _NONE,
        wants_exits: int = 1,
    ) -> ClientCircuit:
        """Return a circuit for this use, in which no node of `avoid` is a hop. Raises `AttemptFailed`.

        Hops of `prefer_not` are chosen only where there is no other. The circuits of a use have at least
        `wants_exits` different exits.
        """
        self._active_until_ms = self._clock.now_ms() + self._limits.idle_ms
        deadline_s = self._loop.time() + WAIT_S
        async with self._turns.turn((use, avoid), deadline_s):
            while True:
                choice = choose_circuit(
                    self._pooled(),
                    use,
                    now_ms=self._clock.now_ms(),
                    limits=self._limits,
                    building=self._building,
                    avoid=avoid,
                    wants_exits=wants_exits,
                )
                match choice:
                    case Reuse(number):
                        return self._used(self._member(number), use)
                    case Build(evicted, avoid_exits) if use not in self._builds_for:
                        self._begin_round(_purpose(use))
                        if evicted is not None:
                            self._member(evicted).circuit.close()
                        made = await self._build_for(use, avoid, avoid_exits, prefer_not | self._hops_of(use))
                        return self._used(made, use)
                    case _:  # all are in use, or one is built for this use and may do
                        await in_time(self._change(), deadline_s)

    def relatives(self, nodes: frozenset[NodeId]) -> frozenset[NodeId]:
        """Return the nodes of the same families, unless one operator has them all."""
        return _NONE if self._is_private else relatives(self._nodes(), nodes)

    async def _build_for(
        self, use: str, avoid: frozenset[NodeId], avoid_exits: frozenset[NodeId], prefer_not: frozenset[NodeId]
    ) -> _Member:
        self._builds_for.add(use)
        try:
            return await self._build(_purpose(use), avoid, avoid_exits, prefer_not)
        finally:
            self._builds_for.discard(use)
            self._changed.set()

    def _used(self, member: _Member, use: str) -> ClientCircuit:
        member.use = use
        member.used_at_ms = self._clock.now_ms()
        if use == STORES:
            member.circuit.meter.spend(1, self._loop.time())
        return member.circuit

    def _hops_of(self, use: str) -> frozenset[NodeId]:
        """Return the hops behind the guards: other ones make circuits that can reach those."""
        return frozenset(hop for each in self._members.values() if each.use == use for hop in each.circuit.hops[1:])

    def pass_over(self, node: NodeId) -> None:
        """Leave a node that lied or failed out of new circuits for a while."""
        self._passed_over.add(node, now_ms=self._clock.now_ms())

    def status(self) -> PoolStatus:
        now_ms = self._clock.now_ms()
        median_s = self.times.median_s
        return PoolStatus(
            circuits=tuple(
                CircuitStatus(
                    hops=tuple(map(short_key, each.circuit.hops)),
                    use=each.use or "spare",
                    streams=each.circuit.streams,
                    age_ms=now_ms - each.built_at_ms,
                    build_ms=round(each.build_s * 1_000),
                )
                for each in self._members.values()
            ),
            built=self.built,
            failures=dict(self.failures),
            silent=self.silent,
            build_timeout_ms=round(self.times.timeout_s * 1_000),
            build_median_ms=None if median_s is None else round(median_s * 1_000),
        )

    async def _build(
        self,
        purpose: Purpose,
        avoid: frozenset[NodeId],
        avoid_exits: frozenset[NodeId],
        prefer_not: frozenset[NodeId],
    ) -> _Member:
        """Build a circuit, over other hops if the first ones fail."""
        self._building += 1
        began_s, began_ms = self._loop.time(), self._clock.now_ms()
        try:
            for _ in range(TRIES):
                path = self._path(avoid, avoid_exits, prefer_not)
                try:
                    return await self._build_path(path)
                except CircuitFailed as problem:
                    self._last_failure = problem
                    self._note_failure(path, problem)
                    if problem.hop == 1 and self._guards.have_all_failed(usable_hops(self._nodes()), since_ms=began_ms):
                        break
        finally:
            self._building -= 1
            self._changed.set()
        now_s = self._loop.time()
        self._backoff.failed(purpose, took_s=now_s - began_s, now_s=now_s)
        raise self._last_failure

    def _begin_round(self, purpose: Purpose) -> None:
        """Raise the last failure again if it is too early for another round."""
        if not self._backoff.may_begin(purpose, self._loop.time()):
            last = self._last_failure
            raise CircuitFailed(str(last), hop=last.hop, failure=last.failure)

    def _path(self, avoid: frozenset[NodeId], avoid_exits: frozenset[NodeId], prefer_not: frozenset[NodeId]) -> Path:
        hops = usable_hops(self._nodes())
        failed = self._passed_over.of(len(hops), now_ms=self._clock.now_ms())
        guards = self._guards.in_order(hops)
        last: RestanteError | None = None
        for passed_over in (failed, _NONE):  # better a hop that failed than none
            try:
                return choose_path(
                    hops,
                    guards,
                    choose=self._choose,
                    avoid=avoid | (passed_over - {each.node_id for each in guards}),
                    avoid_exits=avoid_exits,
                    prefer_not=prefer_not
                    | passed_over
                    | self._guards.unreached(),  # a guard that failed behind another guard is still a guard
                    is_private=self._is_private,
                )
            except RestanteError as problem:
                last = problem
        raise (NoHopsLeft if isinstance(last, NoPath) else CircuitFailed)(str(last)) from last

    async def _build_path(self, path: Path) -> _Member:
        while not self._requests.take(1, self._loop.time()):  # noqa: ASYNC110 - the bucket fills with time
            await asyncio.sleep(self._requests.wait_ms(1) / 1_000)
        others = [each for each in self._guards.in_order(usable_hops(self._nodes())) if each != path.guard]
        connection = await self._guards.connect(
            path.guard, within_s=silent_after_s(self.times.timeout_s), others=others
        )
        began_s = self._loop.time()
        circuit = ClientCircuit(
            path, connection, entropy=self._entropy, on_freed=self._changed.set, on_ended=self._ended
        )
        try:
            async with asyncio.timeout(self.times.timeout_s):
                await asyncio.shield(circuit.built)
        except TimeoutError:
            self.times.timed_out()
            failed = circuit.late()
            self._start(self._measure(circuit, began_s))
            if not circuit.has_guard:
                self._check_guard(circuit)
            raise failed from None
        except BaseException:
            circuit.close()
            raise
        return self._add(circuit, self._loop.time() - began_s)

    async def _measure(self, circuit: ClientCircuit, began_s: float) -> None:
        """Learn from a build that took too long; what is built late is a spare."""
        try:
            async with asyncio.timeout_at(began_s + self.times.measured_s):
                await asyncio.shield(circuit.built)
        except (TimeoutError, AttemptFailed):
            circuit.close()
            return
        self._add(circuit, self._loop.time() - began_s)

    def _add(self, circuit: ClientCircuit, took_s: float) -> _Member:
        self.times.built(took_s)
        self._backoff.built()
        self._guards.built(circuit.hops[0])
        self.built += 1
        self._last += 1
        now_ms = self._clock.now_ms()
        rotate_ms = rotate_at(now_ms, self._entropy.dice())
        member = self._members[circuit] = _Member(self._last, circuit, None, now_ms, now_ms, rotate_ms, took_s)
        self._changed.set()
        return member

    def _note_failure(self, path: Path, problem: CircuitFailed) -> None:
        hop = problem.hop
        self.failures["time-out" if hop is None else HOP_NAMES[hop - 1]] += 1
        if hop == 1:
            self._guards.failed(path.guard.node_id)
            return
        if hop is not None:
            self.pass_over(path.hops[hop - 1].node_id)
        self._failed_behind(path.guard.node_id, was_built=False)

    def _failed_behind(self, guard: NodeId, *, was_built: bool) -> None:
        """Count a circuit that failed behind its guard. A guard over which most fail may have chosen those that stand:
        they are replaced, and what the guard said of other hops is forgotten."""
        if self._guards.failed_behind(guard, was_built=was_built):
            self._passed_over.clear()
            now_ms = self._clock.now_ms()
            for each in self._members.values():
                if each.circuit.hops[0] == guard:
                    each.rotate_at_ms = min(each.rotate_at_ms, now_ms)

    def _ended(self, circuit: ClientCircuit) -> None:
        if self._members.pop(circuit, None) is not None and circuit.was_cut:
            self._failed_behind(circuit.hops[0], was_built=True)
        self._changed.set()

    def _pooled(self) -> list[PooledCircuit]:
        now_s = self._loop.time()
        return [
            PooledCircuit(
                number=each.number,
                hops=each.circuit.hops,
                use=each.use,
                streams=each.circuit.streams,
                built_at_ms=each.built_at_ms,
                used_at_ms=each.used_at_ms,
                rotate_at_ms=each.rotate_at_ms,
                is_spent=not each.circuit.meter.has(1, now_s),
            )
            for each in self._members.values()
        ]

    def _member(self, number: int) -> _Member:
        return next(each for each in self._members.values() if each.number == number)

    async def _change(self) -> bool:
        self._changed.clear()
        return await self._changed.wait()

    def _watch_silent(self) -> None:
        """Probe and give up circuits that owe an answer: what they carried is sent again over others."""
        now_s, limit_s = self._loop.time(), silent_after_s(self.times.timeout_s)
        for circuit, member in tuple(self._members.items()):
            if circuit.owed_since_s is None:
                continue
            owed_s, is_storing = now_s - circuit.owed_since_s, member.use == STORES
            match judge_silence(owed_s, limit_s=limit_s, is_storing=is_storing, is_probed=circuit.is_probed):
                case Silence.PROBE:
                    circuit.probe()
                case Silence.GIVE_UP:
                    self.silent += 1
                    self._check_guard(circuit)
                    circuit.close()
                    self._failed_behind(circuit.hops[0], was_built=True)

    def _check_guard(self, circuit: ClientCircuit) -> None:
        self._start(self._guards.check(circuit.hops[0], within_s=silent_after_s(self.times.timeout_s)))

    def _tick(self) -> None:
        self._watch_silent()
        now_ms = self._clock.now_ms()
        is_active = now_ms < self._active_until_ms
        todo = due(self._pooled(), now_ms=now_ms, limits=self._limits, building=self._building, is_active=is_active)
        for number in todo.destroy:
            self._member(number).circuit.close()
        for number in todo.rotate:
            self.on_rotating(self._member(number).circuit)
        for _ in range(todo.build_spares):
            self._start(self._build_spare())
        self._timer = self._loop.call_later(TICK_S, self._tick)

    async def _build_spare(self) -> None:
        with contextlib.suppress(AttemptFailed):  # counted; the next request for a circuit reports it
            self._begin_round(Purpose.SPARE)
            await self._build(Purpose.SPARE, _NONE, _NONE, _NONE)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _purpose(use: str) -> Purpose:
    return Purpose.STORES if use == STORES else Purpose.READING
