"""All receivers of a client: one for its named relays, one for the mesh. They run together (SPEC 3.14)."""

import asyncio
from collections.abc import Callable, Sequence

from restante.client.mesh.host import MeshHost
from restante.client.mesh.receiver import MeshReceiver
from restante.client.mesh.receiving import Take
from restante.client.relay.connector import Connector
from restante.client.relay.receiver import MailReceiver
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.crypto.identity import Identity
from restante.model.places import Place, RelayPlace
from restante.policy.retry import RetrySchedule
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.run_together import run_until_one_ends


class Receivers:
    """`take` stores what arrived and returns once it is on disk."""

    def __init__(
        self,
        identity: Identity,
        places: Sequence[Place],
        *,
        take: Take,
        schedule: RetrySchedule,
        entropy: Entropy,
        delay_s: float,
        on_wrong_key: Callable[[], None],
    ) -> None:
        self._identity = identity
        self._take = take
        self._delay_s = delay_s
        relays = [each for each in places if isinstance(each, RelayPlace)]
        self._relays = MailReceiver(
            (OwnInbox(identity), OwnInbox(identity, identity.access_secret)),
            relays,
            take=take,
            schedule=schedule,
            entropy=entropy,
            delay_s=delay_s,
            on_wrong_key=on_wrong_key,
        )
        self._has_relays = bool(relays)
        self.mesh: MeshReceiver | None = None

    @property
    def was_connected(self) -> bool:
        """Whether one of our own places was reached."""
        return self._relays.was_connected or (self.mesh is not None and self.mesh.was_connected)

    @property
    def failure(self) -> AttemptFailed | None:
        """Why the last try to reach one of our own places failed; None while one of them is reached."""
        return self._relays.failure or (None if self.mesh is None else self.mesh.failure)

    async def run(self, connect: Connector, mesh: MeshHost | None) -> None:
        """Receive at every place until cancelled, or until `take` raises."""
        jobs = []
        if self._has_relays:
            jobs.append(self._relays.run(connect))
        if mesh is not None:
            jobs.append(self._receive_from_mesh(mesh))
        if not jobs:
            await asyncio.Event().wait()  # nothing to receive from: the client only sends
        await run_until_one_ends(jobs)

    async def _receive_from_mesh(self, mesh: MeshHost) -> None:
        self.mesh = await mesh.receiver(self._identity, take=self._take, delay_s=self._delay_s)
        await self.mesh.run()
