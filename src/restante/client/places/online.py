"""Keeps a client connected: sends and receives at its places, and begins again when its inboxes or places change.

Decides which jobs run together. What each does is in its own module.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from restante.client.composition import ClientParts
from restante.client.contacts import ContactBook
from restante.client.mesh.host import MeshHost
from restante.client.places.mail_carrier import MailCarrier
from restante.client.places.own_places import OwnPlaces
from restante.client.places.reading import Reading, to_read
from restante.client.places.reading_status import ReadingStatus
from restante.client.places.receivers import Receivers, TakeFrom
from restante.client.relay.connector import Connector
from restante.crypto.identity import Identity
from restante.model.errors import DiskFull
from restante.model.states import Route
from restante.policy.settings import Settings
from restante.ports.carrier import Carrier
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.run_together import run_until_one_ends

Jobs = Callable[[MeshHost | None], Iterable[Coroutine[Any, Any, object]]]


class Online:
    """`places` are our own, `open_mesh` reaches the mesh if the client knows one, `jobs` is what else runs while the
    client is connected. `stopping` ends `run`."""

    def __init__(
        self,
        parts: ClientParts,
        contacts: ContactBook,
        *,
        identity: Identity,
        places: OwnPlaces,
        open_mesh: Callable[[], MeshHost | None],
        jobs: Jobs,
        carriers: Mapping[Route, Carrier],
        take: TakeFrom,
        stopping: asyncio.Event,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        delay_s: float,
        on_wrong_key: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._contacts = contacts
        self._identity = identity
        self._places = places
        self._open_mesh = open_mesh
        self._jobs = jobs
        self._carriers = carriers
        self._take = take
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._delay_s = delay_s
        self._on_wrong_key = on_wrong_key
        self._read: Reading | None = None
        self._has_changed = asyncio.Event()
        self._stopping = stopping
        self._receivers: Receivers | None = None
        self.mesh: MeshHost | None = None

    @property
    def was_connected(self) -> bool:
        return self._receivers is not None and self._receivers.results.was_connected

    @property
    def has_read_all(self) -> bool:
        """Whether every inbox was reached at every place since the client is connected."""
        return self._receivers is not None and self._receivers.results.has_read_all

    @property
    def failure(self) -> AttemptFailed | None:
        return None if self._receivers is None else self._receivers.results.failure

    def reading_status(self) -> ReadingStatus:
        return ReadingStatus() if self._receivers is None else self._receivers.results.status()

    def look_for_changes(self) -> None:
        """Connect again if there is something else to read by now."""
        if self._read is not None and self._reading() != self._read:
            self._has_changed.set()

    async def run(self, connect: Connector) -> None:
        """Stay connected until it is to stop, drain once more and return; or until cancellation."""
        has_drained = False
        while not has_drained:
            self._has_changed.clear()
            self._read = self._reading()
            self._receivers = Receivers(
                self._read,
                take=self._take,
                schedule=self._settings.retry,
                clock=self._clock,
                entropy=self._entropy,
                delay_s=self._delay_s,
                on_wrong_key=self._on_wrong_key,
            )
            try:
                has_drained = await self._stay_connected(connect, self._receivers)
            finally:
                self.mesh = None

    def _reading(self) -> Reading:
        self._places.refresh()
        return to_read(
            self._identity,
            self._parts.own_access,
            self._places,
            all_read_at_ms=self._parts.access_sender.all_read_at_ms,
            now_ms=self._clock.now_ms(),
        )

    async def _stay_connected(self, connect: Connector, receivers: Receivers) -> bool:
        """Run all jobs until something else is to be read, or it is to stop; return whether it drained at the end."""
        async with contextlib.AsyncExitStack() as stack:
            opened = self._open_mesh()
            mesh = self.mesh = None if opened is None else await stack.enter_async_context(opened)
            carrier = MailCarrier(
                self._contacts,
                connect,
                schedule=self._settings.retry,
                clock=self._clock,
                entropy=self._entropy,
                mesh=None if mesh is None else mesh.storage,
                secret_of=self._parts.access.secret_of,
                on_change=self._parts.outbox.wake,
                on_wrong_key=self._on_wrong_key,
            )
            await stack.enter_async_context(carrier)
            carriers = {Route.RELAY: carrier, Route.MESH: carrier, **self._carriers}
            await run_until_one_ends(
                [
                    self._parts.outbox.run(carriers),
                    receivers.run(connect, mesh),
                    self._stopping.wait(),
                    self._has_changed.wait(),
                    *self._jobs(mesh),
                ]
            )
            if not self._stopping.is_set():
                return False
            with contextlib.suppress(DiskFull):
                await self._parts.outbox.drain(carriers, budget_ms=self._settings.outbox.drain_budget_ms)
            return True
