"""Put connections to relays: one per relay, shared by all lanes, opened on demand, closed when idle (SPEC 6.5).

A relay that can't be reached is dialled again only after a delay that grows with each failure (SPEC 4.1, 4.3). The
delay belongs to the relay, so that a thousand contacts at one dead relay cost one dial each time.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from restante.client.relay.connector import Connector
from restante.model.places import RelayPlace
from restante.policy.failures import Failure, delay_after_failure_ms
from restante.policy.retry import RetrySchedule
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, RelayConnection
from restante.wire.storage_receipts import StorageReceipt

IDLE_S: Final = 60.0  # SPEC 6.5: a connection that only puts is closed after 60 s idle

CLOCK_STEP_S: Final = 0.001
"""Times this close are equal: a wait that ends a rounding error early must not be repeated at once."""


class NotReached(AttemptFailed):
    """No connection to the relay could be made; by SPEC 4.3 most such attempts don't count against the message."""

    def __init__(self, text: str = "the relay cannot be reached", *, failure: Failure = Failure.CONNECTION_REFUSED):
        super().__init__(text, failure=failure)


@dataclass(slots=True)
class _Relay:
    """The state of one relay. `retry_at_s` is in the event loop's time."""

    connection: RelayConnection | None = None
    dialling: asyncio.Task[RelayConnection] | None = None
    watching: asyncio.Task[None] | None = None
    failures: int = 0
    retry_at_s: float = 0.0
    puts_in_progress: int = 0
    used_at_s: float = 0.0


class RelayConnections:
    """Call `close` when done. `on_change` is called when a relay was reached or may be dialled again."""

    def __init__(
        self,
        connect: Connector,
        *,
        schedule: RetrySchedule,
        entropy: Entropy,
        on_change: Callable[[], None] = lambda: None,
        on_wrong_key: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_wrong_key` is called when another node than the pinned one answers at a relay's place."""
        self._connect = connect
        self._schedule = schedule
        self._entropy = entropy
        self._on_change = on_change
        self._on_wrong_key = on_wrong_key
        self._relays: dict[RelayPlace, _Relay] = {}
        self._is_closed = False

    def is_connected(self, place: RelayPlace) -> bool:
        relay = self._relays.get(place)
        return relay is not None and relay.connection is not None

    def can_try(self, place: RelayPlace) -> bool:
        """Return whether the relay is connected, or may be dialled now."""
        relay = self._relays.get(place)
        if relay is None or relay.connection is not None or relay.failures == 0:
            return True
        return asyncio.get_running_loop().time() >= relay.retry_at_s

    async def put(self, place: RelayPlace, envelope: bytes) -> StorageReceipt:
        """Store the envelope at the relay and return its receipt; dial it first if there is no connection.

        Raises `NotReached` if there is none and none can be made, `AttemptFailed` for every other failure.
        """
        relay = self._relays.setdefault(place, _Relay())
        connection = relay.connection or await self._dialled(place, relay)
        relay.puts_in_progress += 1
        try:
            receipt = await connection.put(envelope)
            relay.failures = 0
            return receipt
        finally:
            relay.puts_in_progress -= 1
            relay.used_at_s = asyncio.get_running_loop().time()

    async def close(self) -> None:
        self._is_closed = True
        tasks = [
            task for relay in self._relays.values() for task in (relay.dialling, relay.watching) if task is not None
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._relays.clear()

    async def _dialled(self, place: RelayPlace, relay: _Relay) -> RelayConnection:
        """Return the connection of the dial in progress; start one if there is none."""
        if relay.dialling is None:
            if not self.can_try(place):
                raise NotReached
            relay.dialling = asyncio.create_task(self._dial(place, relay))
            relay.dialling.add_done_callback(_retrieve_exception)
        return await asyncio.shield(relay.dialling)

    async def _dial(self, place: RelayPlace, relay: _Relay) -> RelayConnection:
        try:
            connection = await self._connect(place, None)
        except AttemptFailed as failed:
            self._back_off(relay, failed.failure)
            if failed.failure is Failure.AUTHENTICATION_FAILED:
                self._on_wrong_key()
                raise NotReached(str(failed), failure=Failure.WRONG_NODE_KEY) from failed
            raise NotReached(str(failed), failure=failed.failure) from failed
        finally:
            relay.dialling = None
        relay.connection = connection
        relay.used_at_s = asyncio.get_running_loop().time()
        relay.watching = asyncio.create_task(self._watch(relay, connection))
        self._on_change()
        return connection

    async def _watch(self, relay: _Relay, connection: RelayConnection) -> None:
        """Wait until the connection is lost or has been idle for too long; then close it."""
        loop = asyncio.get_running_loop()
        lost = asyncio.create_task(connection.lost())
        try:
            while True:
                idle_for_s = 0.0 if relay.puts_in_progress else loop.time() - relay.used_at_s
                if idle_for_s > IDLE_S - CLOCK_STEP_S:
                    return
                await asyncio.wait([lost], timeout=IDLE_S - idle_for_s)
                if lost.done():
                    self._back_off(relay, ConnectionLost().failure)
                    return
        finally:
            relay.connection = None
            lost.cancel()
            await connection.close()

    def _back_off(self, relay: _Relay, failure: Failure) -> None:
        relay.failures = min(relay.failures + 1, self._schedule.max_attempts)
        delay_s = (
            delay_after_failure_ms(failure, attempts=relay.failures, dice=self._entropy.dice(), schedule=self._schedule)
            / 1_000
        )
        loop = asyncio.get_running_loop()
        relay.retry_at_s = loop.time() + delay_s
        if not self._is_closed:
            loop.call_at(relay.retry_at_s, self._on_change)


def _retrieve_exception(dial: asyncio.Task[RelayConnection]) -> None:
    """Mark the exception as seen: every caller that still waits gets it, and there may be none."""
    if not dial.cancelled():
        dial.exception()
