"""The guards of one simulated client: hosts policy/circuits/guards, as client/circuits/guard_connections does."""

from collections.abc import Callable, Sequence
from typing import Final

from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.circuits.guards import GuardRecords, GuardState, refresh_guards, usable_guards
from restante.testing.circuit_simulation.world import World
from restante.testing.mesh_simulation.engine import Peer

DIAL_ROUND_TRIPS: Final = 3
"""TCP, TLS and the greeting."""


class SimulatedGuards:
    def __init__(self, world: World, client: Peer, hops: Sequence[NodeDescriptor]) -> None:
        self._world = world
        self._client = client
        self._hops = hops
        self._state = GuardState()
        self.records = GuardRecords()
        self._connected: dict[NodeId, int] = {}
        """Which life of each guard the client is connected to."""
        self._checking: set[NodeId] = set()

    def in_order(self) -> list[NodeDescriptor]:
        now_ms = self._world.engine.now_ms
        self._state = refresh_guards(self._state, self._hops, now_ms=now_ms, choose=self._world.dice.randrange)
        return usable_guards(self._state, self._hops, failed_at_ms=self.records.failed_at_ms, now_ms=now_ms)

    def connect(self, guard: NodeId, done: Callable[[bool], None], *, within_s: float) -> None:
        """Call `done` with whether there is a connection; dial if there is none."""
        if self._connected.get(guard) == self._world.hops[guard].node.lives:
            done(True)
        else:
            self._world.hang_up(self._client, self._world.hops[guard].node)
            deadline_ms = self._world.engine.now_ms + 1_000 * within_s
            self._dial(guard, done, DIAL_ROUND_TRIPS, int(deadline_ms))

    def _dial(self, guard: NodeId, done: Callable[[bool], None], trips: int, deadline_ms: int) -> None:
        node = self._world.hops[guard].node

        def answered(lives: int) -> None:
            if trips > 1:
                self._dial(guard, done, trips - 1, deadline_ms)
            else:
                self._connected[guard] = lives
                self.records.connected(guard)
                done(True)

        def failed() -> None:
            self.failed(guard)
            done(False)

        limit_ms = deadline_ms - self._world.engine.now_ms
        self._world.exchange(self._client, node, lambda: node.lives, answered, failed, limit_ms=limit_ms)

    def failed(self, guard: NodeId) -> None:
        """Use the other guards first for a while."""
        self.records.failed(guard, now_ms=self._world.engine.now_ms)

    def lost(self, guard: NodeId) -> None:
        """The connection has ended."""
        self._connected.pop(guard, None)

    def check(self, guard: NodeId, *, within_s: float, on_silent: Callable[[], None]) -> None:
        """Ask the guard for a sign of life."""
        if guard in self._checking or guard not in self._connected:
            return
        self._checking.add(guard)

        def silent() -> None:
            self._checking.discard(guard)
            self.failed(guard)
            self.lost(guard)
            on_silent()

        node = self._world.hops[guard].node
        answered = self._checking.discard
        limit_ms = int(1_000 * within_s)
        self._world.exchange(self._client, node, lambda: guard, answered, silent, limit_ms=limit_ms)
