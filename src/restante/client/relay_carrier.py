"""The outbox's way out by relays: one link a lane, kept up by the retry schedule (SPEC 4.1), for `Outbox.drain`.

    async with RelayCarrier({"relay-1": connect}, schedule=RetrySchedule(), entropy=SystemEntropy()) as carrier:
        await carrier.connected("relay-1")
        await outbox.drain({Route.RELAY: carrier})

What is put must be an envelope already. Which relay a lane is, the caller says by how it connects.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

from restante.model.errors import RestanteError
from restante.model.ids import NodeId
from restante.model.outbox_entry import OutboxEntry
from restante.policy.retry import RetrySchedule, jittered_delay_ms
from restante.ports.carrier import StoredByNode
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, RelayConnection
from restante.runtime.endpoints import parse_pinned_relay
from restante.wire.inbox_keys import node_id_of

Connect = Callable[[], Awaitable[RelayConnection]]


class RelayCarrier:
    """Satisfies `ports.carrier.Carrier`."""

    def __init__(self, relays: Mapping[str, Connect], *, schedule: RetrySchedule, entropy: Entropy) -> None:
        self._relays = dict(relays)
        self._schedule = schedule
        self._entropy = entropy
        self._links: dict[str, RelayConnection] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._keep_up(lane, connect)) for lane, connect in self._relays.items()]
        return self

    def add(self, lane: str, connect: Connect) -> None:
        """One more relay; a lane that is there keeps its link."""
        if lane not in self._relays:
            self._relays[lane] = connect
            self._tasks.append(asyncio.create_task(self._keep_up(lane, connect)))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def is_up(self) -> bool:
        return bool(self._links)

    def is_connected(self, lane: str) -> bool:
        return lane in self._links

    async def connected(self, lane: str) -> None:
        """Returns once the lane has a link."""
        while lane not in self._links:
            self._changed.clear()
            await self._changed.wait()

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        link = self._links.get(entry.lane)
        if link is None:
            raise ConnectionLost
        return (StoredByNode(await link.put(entry.payload), _node_of(entry.lane)),)

    async def _keep_up(self, lane: str, connect: Connect) -> None:
        """Ends only by cancellation."""
        failures = 0
        while True:
            try:
                link = await connect()
            except AttemptFailed:
                failures = min(failures + 1, self._schedule.max_attempts)
            else:
                failures = 1
                await self._use(lane, link)
            await asyncio.sleep(jittered_delay_ms(self._schedule, attempt=failures, dice=self._entropy.dice()) / 1_000)

    async def _use(self, lane: str, link: RelayConnection) -> None:
        self._links[lane] = link
        self._changed.set()
        try:
            await link.lost()
        finally:
            del self._links[lane]
            await link.close()


def _node_of(lane: str) -> NodeId | None:
    """Who the relay is, if the lane has its name (`KEY@HOST:PORT`)."""
    try:
        return node_id_of(parse_pinned_relay(lane).key)
    except RestanteError:
        return None
