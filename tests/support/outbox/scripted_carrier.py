"""A carrier that does as told, and the short ways to use an outbox with it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping

from restante.client.event_stream import EventStream
from restante.client.outbox import Destination, Message, Outbox
from restante.model.ids import MessageId
from restante.model.kinds import Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State
from restante.policy.failures import Failure
from restante.ports.carrier import Carrier, StoredByNode
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent
from restante.testing.deterministic import FakeClock

MESH = Destination(Route.MESH, "bob")
RELAY = Destination(Route.RELAY, "relay-1")
SERVER = Destination(Route.UPSTREAM, "server-1")
CHAT = Destination(Route.CHANNEL, "chat-1")
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Wire:
    """A carrier that notes what it was given, and fails as told."""

    def __init__(
        self, *, down: Iterable[str] = (), failures: Iterable[Failure] = (), clock: FakeClock | None = None
    ) -> None:
        self.taken: list[bytes] = []
        self.down = set(down)
        self.failures = list(failures)
        self.is_route_down = False
        self.asked: list[str] = []
        self.under_way = 0
        self.most_under_way = 0
        self._clock = clock

    def is_up(self) -> bool:
        return not self.is_route_down

    def is_connected(self, lane: str) -> bool:
        self.asked.append(lane)
        return lane not in self.down

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if self._clock is not None:
            self._clock.advance(1_000)
        if self.failures:
            raise AttemptFailed("as told", failure=self.failures.pop(0), retry_after_ms=5_000)
        self.taken.append(entry.payload)
        return ()


@contextlib.asynccontextmanager
async def running(outbox: Outbox, carriers: Mapping[Route, Carrier]) -> AsyncIterator[None]:
    """The outbox sends what is due, until the block ends."""
    task = asyncio.create_task(outbox.run(carriers))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def sent(
    outbox: Outbox,
    payload: bytes,
    to: Destination = MESH,
    *,
    ttl_s: int | None = None,
    priority: Priority | None = None,
) -> MessageId:
    return (await outbox.send(Message(payload=payload, ttl_s=ttl_s, priority=priority), to)).message_id


async def changes(stream: EventStream[OutboxEvent], count: int) -> list[OutboxEvent]:
    seen = [await anext(stream) for _ in range(count)]
    return [change for change in seen if isinstance(change, OutboxEvent)]


async def state(outbox: Outbox, message_id: MessageId) -> State | None:
    status = await outbox.status(message_id)
    return None if status is None else status.state
