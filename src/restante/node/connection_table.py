"""The open connections of a node: who is admitted, what partial frames hold, and how all of them end (SPEC 6.8)."""

import asyncio
from collections import Counter
from typing import Protocol

from restante.core.link.partial_frames import PartialFrames
from restante.model.sources import Source
from restante.node.stats import RelayCounters, RelayEvent
from restante.policy.connection_limits import RelayLimits, may_connect


class OpenConnection(Protocol):
    """A connection as the table sees it. Compared by identity."""

    def __hash__(self) -> int: ...

    @property
    def source(self) -> Source: ...
    def pause_reading(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class ConnectionTable:
    def __init__(self, limits: RelayLimits, counters: RelayCounters) -> None:
        self._limits = limits
        self._counters = counters
        self._open: set[OpenConnection] = set()
        self._by_source: Counter[Source] = Counter()
        self._partial: PartialFrames[OpenConnection] = PartialFrames(max_bytes=limits.max_partial_bytes)
        self._is_stopping = False
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def partial_bytes(self) -> int:
        return self._partial.total_bytes

    def admit(self, connection: OpenConnection) -> bool:
        """Add a connection, unless the node is stopping or a limit is reached."""
        source = connection.source
        if self._is_stopping or not may_connect(self._limits, taken=len(self._open), of_source=self._by_source[source]):
            self._counters.report(RelayEvent.REJECTED)
            return False
        self._open.add(connection)
        self._by_source[source] += 1
        self._all_ended.clear()
        self._counters.connections += 1
        self._counters.report(RelayEvent.CONNECTED)
        return True

    def remove(self, connection: OpenConnection) -> None:
        if connection not in self._open:
            return
        self._open.discard(connection)
        self._partial.remove(connection)
        self._by_source[connection.source] -= 1
        if not self._by_source[connection.source]:
            del self._by_source[connection.source]
        self._counters.report(RelayEvent.DISCONNECTED)
        if not self._open:
            self._all_ended.set()

    def hold_partial(self, connection: OpenConnection, size_bytes: int, *, is_new_frame: bool) -> None:
        """Record the partial frame of a connection; abort the oldest ones if the budget is exceeded."""
        for victim in self._partial.update(connection, size_bytes, is_new_frame=is_new_frame):
            self._counters.report(RelayEvent.PARTIAL_FRAMES_FULL)
            victim.abort()

    def stop_admitting(self) -> None:
        """Admit nothing more and read nothing more."""
        self._is_stopping = True
        for connection in tuple(self._open):
            connection.pause_reading()

    async def close_all(self, *, within_s: float) -> None:
        """Close every connection and wait until the clients have closed theirs."""
        for connection in tuple(self._open):
            connection.close()
        async with asyncio.timeout(within_s):
            await self._all_ended.wait()

    def abort_all(self) -> None:
        for connection in tuple(self._open):
            connection.abort()
