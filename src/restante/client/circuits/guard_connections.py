"""The client's guards: which one is in use, and the connection to it (SPEC 11.4)."""

import asyncio
import contextlib
import ipaddress
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from restante.client.circuits.circuit import CircuitFailed, short_key
from restante.core.circuit.cell_queues import CellBudget
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.circuits.guards import GuardRecords, GuardState, refresh_guards, usable_guards
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.circuits.path import Choose
from restante.policy.connection_limits import RelayLimits
from restante.policy.failures import Failure
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.transport.cell_link import Side
from restante.runtime.transport.circuit_connection import CircuitConnection

CLOSE_S: Final = 1.0
HEAD_START_S: Final = 1.0
"""How long the guard in use is dialled alone."""


class GuardStore(Protocol):
    """Where the guards are kept from one start of the client to the next."""

    def load(self) -> GuardState: ...

    def save(self, state: GuardState) -> None: ...


class GuardConnections:
    def __init__(
        self,
        store: GuardStore,
        *,
        choose: Choose,
        limits: CircuitLimits,
        relay_limits: RelayLimits,
        clock: Clock,
        entropy: Entropy,
        is_private: bool,
    ) -> None:
        self._store = store
        self._state = store.load()
        self._choose = choose
        self._relay_limits = relay_limits
        self._clock = clock
        self._entropy = entropy
        self._is_private = is_private
        self._cells: CellBudget[Side] = CellBudget(limits.max_queued_bytes)
        self._open: dict[NodeId, CircuitConnection] = {}
        self._dialling: dict[NodeId, asyncio.Task[CircuitConnection]] = {}
        self._records = GuardRecords()
        self._checking: set[NodeId] = set()

    def in_order(self, hops: Sequence[NodeDescriptor]) -> list[NodeDescriptor]:
        """Return the guards to use, first the one in use; choose guards that are missing and store them."""
        now_ms = self._clock.now_ms()
        refreshed = refresh_guards(self._state, hops, now_ms=now_ms, choose=self._choose, is_private=self._is_private)
        if _lasting(refreshed) != _lasting(self._state):
            self._store.save(refreshed)
        self._state = refreshed
        return usable_guards(refreshed, hops, failed_at_ms=self._records.failed_at_ms, now_ms=now_ms)

    async def connect(
        self, guard: NodeDescriptor, *, within_s: float, others: Sequence[NodeDescriptor] = ()
    ) -> CircuitConnection:
        """Return the connection to this guard. Raises E001 if it can't be dialled in time: another guard may be.

        If it is slow to answer, the others are dialled meanwhile: should it be dead, it is known which of them are.
        """
        held = self._held(guard)
        if held is not None:
            return held
        dialling = self._dial(guard, within_s)
        await asyncio.wait([dialling], timeout=HEAD_START_S)
        if not dialling.done():
            for other in others:
                if self._held(other) is None:
                    self._dial(other, within_s)
        return await asyncio.shield(dialling)

    def have_all_failed(self, hops: Sequence[NodeDescriptor], *, since_ms: int) -> bool:
        """Return whether a dial of each guard has failed since then."""
        return all(self._records.failed_at_ms.get(each.node_id, -1) > since_ms for each in self.in_order(hops))

    def _held(self, guard: NodeDescriptor) -> CircuitConnection | None:
        held = self._open.get(guard.node_id)
        return held if held is not None and held.is_ready else None

    def _dial(self, guard: NodeDescriptor, within_s: float) -> "asyncio.Task[CircuitConnection]":
        """Return the dial of this guard that is under way, or begin one."""
        dialling = self._dialling.get(guard.node_id)
        if dialling is None:
            dialling = self._dialling[guard.node_id] = asyncio.create_task(self._reach(guard, within_s))
            dialling.add_done_callback(partial(self._dialled, guard.node_id))
        return dialling

    def _dialled(self, guard: NodeId, dialling: "asyncio.Task[CircuitConnection]") -> None:
        del self._dialling[guard]
        if not dialling.cancelled():
            dialling.exception()  # retrieved, or asyncio logs it if its caller was cancelled

    async def _reach(self, guard: NodeDescriptor, within_s: float) -> CircuitConnection:
        for endpoint in guard.endpoints:
            host = str(ipaddress.ip_address(endpoint.ip))
            with contextlib.suppress(AttemptFailed, TimeoutError):
                async with asyncio.timeout(within_s):
                    made = await CircuitConnection.connect(
                        host, endpoint.port, node=guard.node_key, limits=self._relay_limits
                    )
                self._open[guard.node_id] = made.use(self._cells, self._entropy)
                self._records.connected(guard.node_id)
                return made
        self._records.failed(guard.node_id, now_ms=self._clock.now_ms())
        text = f"the guard {short_key(guard.node_id)} can't be reached"
        raise CircuitFailed(text, hop=1, failure=Failure.CONNECTION_REFUSED)

    def failed(self, guard: NodeId) -> None:
        """Use the other guards first for a while."""
        self._records.failed(guard, now_ms=self._clock.now_ms())

    def unreached(self) -> frozenset[NodeId]:
        """Return the guards that failed themselves lately: as other hops they would fail, too."""
        return self._records.unreached(now_ms=self._clock.now_ms())

    def built(self, guard: NodeId) -> None:
        self._records.built(guard)

    def failed_behind(self, guard: NodeId, *, was_built: bool) -> bool:
        """A circuit failed behind this guard; return whether the other guards are used first from now on."""
        return self._records.failed_behind(guard, was_built=was_built, now_ms=self._clock.now_ms())

    async def check(self, guard: NodeId, *, within_s: float) -> None:
        """Ask a guard whose circuits say nothing for a sign of life; without one, end its connection and use another.

        TCP alone takes minutes to notice that the other end is gone.
        """
        connection = self._open.get(guard)
        if connection is None or not connection.is_ready or guard in self._checking:
            return
        self._checking.add(guard)
        try:
            if not await connection.is_alive(within_s=within_s):
                self.failed(guard)
                connection.abort()
        finally:
            self._checking.discard(guard)

    async def close(self) -> None:
        """Send what is queued, the DESTROYs of circuits among it, then end the connections."""
        dialling = tuple(self._dialling.values())
        for task in dialling:
            task.cancel()
        await asyncio.gather(*dialling, return_exceptions=True)
        for connection in self._open.values():
            await connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                for connection in self._open.values():
                    await connection.lost()
        for connection in self._open.values():
            connection.abort()


def _lasting(state: GuardState) -> tuple[object, ...]:
    """Return what is worth a write: not that a guard was listed again."""
    return state.sample, tuple((each.node_id, each.kept_until_ms) for each in state.guards)


def uniform_choice(draw: Callable[[int], bytes]) -> Choose:
    """Return a function that chooses one of n things. The bias of the remainder is below 2 to the power of -60."""
    return lambda count: int.from_bytes(draw(16), "big") % count
