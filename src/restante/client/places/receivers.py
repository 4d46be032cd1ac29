"""All receivers of a client: one for its named relays, one for the mesh. They run together (SPEC 3.14)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from restante.client.mesh.host import MeshHost
from restante.client.places.read_results import ReadResults
from restante.client.places.reading import Reading
from restante.client.relay.connector import Connector
from restante.client.relay.receiver import MailReceiver
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.model.ids import PayloadHash
from restante.policy.retry import RetrySchedule
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import StoredBlob
from restante.runtime.run_together import run_until_one_ends

TakeFrom = Callable[[OwnInbox, Sequence[StoredBlob]], Awaitable[Collection[PayloadHash]]]
"""Stores what arrived in an inbox; returns once it is on disk."""


class Receivers:
    def __init__(
        self,
        reading: Reading,
        *,
        take: TakeFrom,
        schedule: RetrySchedule,
        clock: Clock,
        entropy: Entropy,
        delay_s: float,
        on_wrong_key: Callable[[], None],
    ) -> None:
        self._reading = reading
        self.results = ReadResults(reading, now_ms=clock.now_ms)
        self._take = take
        self._delay_s = delay_s
        self._relays = MailReceiver(
            reading.inboxes,
            reading.relays,
            self.results,
            take=take,
            schedule=schedule,
            entropy=entropy,
            delay_s=delay_s,
            on_wrong_key=on_wrong_key,
        )

    async def run(self, connect: Connector, mesh: MeshHost | None) -> None:
        """Receive at every place until cancelled, or until `take` raises."""
        jobs = []
        if self._reading.relays:
            jobs.append(self._relays.run(connect))
        if mesh is not None and self._reading.is_in_mesh:
            jobs.append(self._receive_from_mesh(mesh))
        if not jobs:
            await asyncio.Event().wait()  # nothing to receive from: the client only sends
        await run_until_one_ends(jobs)

    async def _receive_from_mesh(self, mesh: MeshHost) -> None:
        receiver = await mesh.receiver(self._reading.inboxes, self.results, take=self._take, delay_s=self._delay_s)
        await receiver.run()
