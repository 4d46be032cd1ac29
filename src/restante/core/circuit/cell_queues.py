"""Cells that wait for a connection to take more, per circuit (SPEC 11.5).

A hop reads on whatever a single circuit does: each circuit has a queue, bounded by the window of a circuit, and all
queues of a node share one budget. Over its bound a circuit is destroyed; over the budget the circuit with the longest
queue is. Circuits of one connection take turns, one cell each.
"""

from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from restante.core.circuit.flow import CIRCUIT_WINDOW

MAX_QUEUE_BYTES: Final = CIRCUIT_WINDOW + 65_536
"""A whole window, and the cells that no window counts: credits and the handshakes of further hops."""

Circuit = TypeVar("Circuit", bound=Hashable)


class CellBudget(Generic[Circuit]):
    """Queued bytes of all circuits of a node, each named with its connection's queue."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._held: dict[Circuit, int] = {}
        self.total_bytes = 0

    def add(self, circuit: Circuit, size: int) -> list[Circuit]:
        """Count queued bytes; return the circuits to destroy: this one over its bound, the longest over the budget."""
        held = self._held.get(circuit, 0) + size
        self._held[circuit] = held
        self.total_bytes += size
        if held > MAX_QUEUE_BYTES:
            return [circuit]
        return [max(self._held, key=self._held.__getitem__)] if self.total_bytes > self._max else []

    def remove(self, circuit: Circuit, size: int) -> None:
        held = self._held.get(circuit, 0) - size
        self.total_bytes -= min(size, self._held.get(circuit, 0))
        if held > 0:
            self._held[circuit] = held
        else:
            self._held.pop(circuit, None)

    def forget(self, circuit: Circuit) -> None:
        self.total_bytes -= self._held.pop(circuit, 0)


class CellQueues(Generic[Circuit]):
    """The queues of one connection, in turns."""

    __slots__ = ("_budget", "_queues")

    def __init__(self, budget: CellBudget[Circuit]) -> None:
        self._budget = budget
        self._queues: dict[Circuit, deque[bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def has(self, circuit: Circuit) -> bool:
        return circuit in self._queues

    def add(self, circuit: Circuit, raw: bytes) -> list[Circuit]:
        """Queue a cell; return the circuits to destroy."""
        self._queues.setdefault(circuit, deque()).append(raw)
        return self._budget.add(circuit, len(raw))

    def take(self) -> bytes | None:
        """Return the next cell of the circuit whose turn it is."""
        if not self._queues:
            return None
        circuit = next(iter(self._queues))
        queue = self._queues.pop(circuit)
        raw = queue.popleft()
        if queue:
            self._queues[circuit] = queue
        self._budget.remove(circuit, len(raw))
        return raw

    def forget(self, circuit: Circuit) -> None:
        """Drop what the circuit has queued."""
        if self._queues.pop(circuit, None) is not None:
            self._budget.forget(circuit)
