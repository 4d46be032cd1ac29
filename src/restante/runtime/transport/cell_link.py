"""Sends the frames of many circuits on one connection: those of one turn of the loop together, in turns when it blocks.

While the connection takes no more, frames wait in queues per circuit, which are bounded (`core.circuit.cell_queues`).
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Protocol

from restante.core.circuit.cell_queues import CellBudget, CellQueues


class Side(Hashable, Protocol):
    """One circuit in one direction. Compared by identity."""

    def on_overflow(self) -> None:
        """Too many cells wait for this circuit: destroy it."""
        ...


class CellLink:
    def __init__(self, send: Callable[[bytes], None], can_write: Callable[[], bool], budget: CellBudget[Side]) -> None:
        self._send = send
        self._can_write = can_write
        self._queues = CellQueues(budget)
        self._corked: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def send(self, side: Side, raw: bytes) -> None:
        if self._can_write() and not self._queues:
            if not self._corked:
                self._loop.call_soon(self._uncork)
            self._corked.append(raw)
            return
        for victim in self._queues.add(side, raw):
            self._queues.forget(victim)
            victim.on_overflow()

    def window_opened(self) -> None:
        """The connection takes more."""
        while self._can_write() and (raw := self._queues.take()) is not None:
            self._send(raw)

    def forget(self, side: Side) -> None:
        """Drop what the circuit has queued."""
        self._queues.forget(side)

    def _uncork(self) -> None:
        corked, self._corked = self._corked, []
        self._send(b"".join(corked))
