"""Receives mail: stays subscribed at the client's own places and passes on what arrives (SPEC 6.4, 6.5).

A receiving connection never puts, and it is opened a random time after start, so that a relay can't link it to the
connection that puts. Each inbox has a connection of its own, so that a relay can't link the two inboxes. A blob is
deleted at the relay only after it is on our disk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from restante.client.places.read_results import ReadResults
from restante.client.places.reading import InboxToRead
from restante.client.relay.connector import Connector
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.model.places import RelayPlace
from restante.policy.failures import Failure, delay_after_failure_ms
from restante.policy.retry import RetrySchedule
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, RelayConnection, StoredBlob
from restante.runtime.run_together import run_until_one_ends
from restante.wire.frames.mailbox import MAX_DELETED_AT_ONCE

RECEIVE_DELAY_S: Final = 5.0  # SPEC 6.5: a receiving connection is opened a random 0-5 s after start

DELETE_INTERVAL_S: Final = 0.02
"""The least time between two deletes: each costs us and the relay a frame and its answer, whatever it names."""
LAST_DELETE_S: Final = 1.0  # how long the end of a connection waits for the answer to its last delete


class MailReceiver:
    """`take` stores what arrived and returns once it is on disk."""

    def __init__(
        self,
        inboxes: Sequence[InboxToRead],
        places: Sequence[RelayPlace],
        results: ReadResults,
        *,
        take: Callable[[OwnInbox, Sequence[StoredBlob]], Awaitable[object]],
        schedule: RetrySchedule,
        entropy: Entropy,
        delay_s: float = RECEIVE_DELAY_S,
        on_wrong_key: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait a random time up to `delay_s` before the first connection of each inbox."""
        self._inboxes = inboxes
        self._places = places
        self._results = results
        self._take = take
        self._schedule = schedule
        self._entropy = entropy
        self._delay_s = delay_s
        self._on_wrong_key = on_wrong_key

    async def run(self, connect: Connector) -> None:
        """Stay subscribed to every inbox at every place; ends only by cancellation or an error of `take`."""
        await run_until_one_ends(
            self._stay_subscribed(connect, place, each) for place in self._places for each in self._inboxes
        )

    async def _stay_subscribed(self, connect: Connector, place: RelayPlace, read: InboxToRead) -> None:
        await asyncio.sleep(self._delay_s * (self._entropy.dice() + 1) / 2)
        failures = 0
        while True:
            try:
                connection = await connect(place, read.inbox)
            except AttemptFailed as failed:
                failures = min(failures + 1, self._schedule.max_attempts)
                failure = failed.failure
                self._results.failed(place, read.name, failed)
                if failure is Failure.AUTHENTICATION_FAILED:
                    self._on_wrong_key()
            else:
                failures, failure = 1, Failure.NETWORK_TIMEOUT
                self._results.reached(place, read.name)
                await self._receive(connection, read.inbox)
                self._results.lost(place, read.name)
            delay_ms = delay_after_failure_ms(
                failure, attempts=failures, dice=self._entropy.dice(), schedule=self._schedule
            )
            await asyncio.sleep(delay_ms / 1_000)

    async def _receive(self, connection: RelayConnection, inbox: OwnInbox) -> None:
        """Take blobs until the connection is lost. Those that come while a delete is answered are taken meanwhile."""
        deletes = _Deletes(connection)
        try:
            while True:
                blobs = await connection.next_blobs()
                await self._take(inbox, blobs)
                deletes.add([blob.blob_id for blob in blobs])
        except ConnectionLost:
            return
        finally:
            await deletes.finish()
            await connection.close()


class _Deletes:
    """Deletes at the relay what is on our disk, one request at a time; what comes in an interval shares the next."""

    def __init__(self, connection: RelayConnection) -> None:
        self._connection = connection
        self._blob_ids: list[int] = []
        self._deleting: asyncio.Task[None] | None = None

    def add(self, blob_ids: list[int]) -> None:
        self._blob_ids += blob_ids
        if self._deleting is None or self._deleting.done():
            self._deleting = asyncio.create_task(self._delete())

    async def finish(self) -> None:
        """Wait for the last answer, but not long: what is not deleted comes again, as a duplicate."""
        if self._deleting is not None:
            await asyncio.wait([self._deleting], timeout=LAST_DELETE_S)
            self._deleting.cancel()

    async def _delete(self) -> None:
        while self._blob_ids:
            some, self._blob_ids = self._blob_ids[:MAX_DELETED_AT_ONCE], self._blob_ids[MAX_DELETED_AT_ONCE:]
            try:
                await self._connection.delete_many(some)
            except ConnectionLost:
                return
            except AttemptFailed:
                pass  # the relay keeps the blobs and sends them again in the next subscription
            await asyncio.sleep(DELETE_INTERVAL_S)
