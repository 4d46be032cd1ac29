"""Receives mail: stays subscribed at the client's own places and passes on what arrives (SPEC 6.4, 6.5).

A receiving connection never puts, and it is opened a random time after start, so that a relay can't link it to the
connection that puts. Each inbox has a connection of its own, so that a relay can't link the two inboxes. A blob is
deleted at the relay only after it is on our disk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from restante.client.relay.connector import Connector
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.model.places import RelayPlace
from restante.policy.failures import Failure, delay_after_failure_ms
from restante.policy.retry import RetrySchedule
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, RelayConnection, StoredBlob
from restante.wire.frames.mailbox import MAX_DELETED_AT_ONCE

RECEIVE_DELAY_S: Final = 5.0  # SPEC 6.5: a receiving connection is opened a random 0-5 s after start


class MailReceiver:
    """`take` stores what arrived and returns once it is on disk."""

    def __init__(
        self,
        inboxes: Sequence[OwnInbox],
        places: Sequence[RelayPlace],
        *,
        take: Callable[[Sequence[StoredBlob]], Awaitable[None]],
        schedule: RetrySchedule,
        entropy: Entropy,
        delay_s: float = RECEIVE_DELAY_S,
        on_wrong_key: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait a random time up to `delay_s` before the first connection of each inbox."""
        self._inboxes = inboxes
        self._places = places
        self._take = take
        self._schedule = schedule
        self._entropy = entropy
        self._delay_s = delay_s
        self._on_wrong_key = on_wrong_key
        self.was_connected = False
        self.failure: AttemptFailed | None = None

    async def run(self, connect: Connector) -> None:
        """Stay subscribed to every inbox at every place; ends only by cancellation or an error of `take`."""
        tasks = [
            asyncio.create_task(self._stay_subscribed(connect, place, inbox))
            for place in self._places
            for inbox in self._inboxes
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stay_subscribed(self, connect: Connector, place: RelayPlace, inbox: OwnInbox) -> None:
        await asyncio.sleep(self._delay_s * (self._entropy.dice() + 1) / 2)
        failures = 0
        while True:
            try:
                connection = await connect(place, inbox)
            except AttemptFailed as failed:
                failures = min(failures + 1, self._schedule.max_attempts)
                failure, self.failure = failed.failure, failed
                if failure is Failure.AUTHENTICATION_FAILED:
                    self._on_wrong_key()
            else:
                failures, failure = 1, Failure.NETWORK_TIMEOUT
                self.was_connected, self.failure = True, None
                await self._receive(connection)
            delay_ms = delay_after_failure_ms(
                failure, attempts=failures, dice=self._entropy.dice(), schedule=self._schedule
            )
            await asyncio.sleep(delay_ms / 1_000)

    async def _receive(self, connection: RelayConnection) -> None:
        """Take blobs until the connection is lost."""
        try:
            while True:
                blobs = await connection.next_blobs()
                await self._take(blobs)
                await _delete(connection, [blob.blob_id for blob in blobs])
        except ConnectionLost:
            return
        finally:
            await connection.close()


async def _delete(connection: RelayConnection, blob_ids: list[int]) -> None:
    for start in range(0, len(blob_ids), MAX_DELETED_AT_ONCE):
        try:
            await connection.delete_many(blob_ids[start : start + MAX_DELETED_AT_ONCE])
        except ConnectionLost:
            raise
        except AttemptFailed:
            continue  # the relay keeps the blob and sends it again in the next subscription, as a duplicate
