"""All receivers of a client: one for its named relays, one for the mesh. They run together (SPEC 3.14)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from restante.client.mesh.host import MeshHost
from restante.client.mesh.receiver import MeshReceiver
from restante.client.places.reading import Reading
from restante.client.relay.connector import Connector
from restante.client.relay.receiver import MailReceiver
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.model.ids import PayloadHash
from restante.policy.retry import RetrySchedule
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed, StoredBlob
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
        entropy: Entropy,
        delay_s: float,
        on_wrong_key: Callable[[], None],
    ) -> None:
        self._reading = reading
        self._take = take
        self._delay_s = delay_s
        self._relays = MailReceiver(
            reading.inboxes,
            reading.relays,
            take=take,
            schedule=schedule,
            entropy=entropy,
            delay_s=delay_s,
            on_wrong_key=on_wrong_key,
        )
        self.mesh: MeshReceiver | None = None

    @property
    def was_connected(self) -> bool:
        """Whether public and contacts inbox were reached at one of our places."""
        return self._relays.was_connected or (self.mesh is not None and self.mesh.was_connected)

    @property
    def has_read_all(self) -> bool:
        """Whether every inbox was reached at every place, former ones too."""
        in_mesh = not self._reading.is_in_mesh or (self.mesh is not None and self.mesh.has_read_all)
        return in_mesh and self._relays.has_reached_all

    @property
    def failure(self) -> AttemptFailed | None:
        """Why the last try to reach one of our own places failed; None while one of them is reached."""
        return self._relays.failure or (None if self.mesh is None else self.mesh.failure)

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
        self.mesh = await mesh.receiver(self._reading.inboxes, take=self._take, delay_s=self._delay_s)
        await self.mesh.run()
