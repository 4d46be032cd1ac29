"""Everything of the mesh that one client uses while it runs: directory, storing, reading, publishing keys."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import Final, Self

from restante.client.circuits.mesh_circuits import MeshCircuits
from restante.client.circuits.pool import CircuitPool
from restante.client.circuits.status import PoolStatus
from restante.client.mesh import evidence
from restante.client.mesh.connector import connect_to_node
from restante.client.mesh.directory import MeshDirectory
from restante.client.mesh.evidence import Accusation
from restante.client.mesh.prekeys import PrekeyRecords
from restante.client.mesh.receiver import MeshReceiver
from restante.client.mesh.storing import MeshStorage
from restante.client.places.read_results import ReadResults
from restante.client.places.reading import InboxToRead
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.mailbox_poll.buckets import Bucket
from restante.core.mesh_proofs.published_keys import PublishedKeys
from restante.crypto.identity import Identity
from restante.model.errors import ConfigurationInvalid
from restante.model.ids import NodeId, PayloadHash
from restante.model.places import RelayPlace
from restante.policy.circuits.guards import GuardState
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.mesh_connection import MeshConnector
from restante.ports.relay_connection import AttemptFailed, StoredBlob
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.runtime.sqlite.guard_state import StoredGuards
from restante.runtime.sqlite.mesh_state import MeshState
from restante.runtime.sqlite.outbox.fleet_actions import scoreboard

PUBLISH_INTERVAL_S: Final = 6 * 3_600.0
PUBLISH_RETRY_S: Final = 10.0


class CircuitMode(StrEnum):
    """Whether nodes are reached through circuits. There is no third way and no fallback (SPEC 11.7)."""

    REQUIRED = "required"
    OFF = "off"


def circuit_mode(text: str) -> CircuitMode:
    """Return the mode that a person named."""
    try:
        return CircuitMode(text)
    except ValueError:
        raise ConfigurationInvalid(f"circuits are {' or '.join(CircuitMode)}, not {text!r}") from None


WITHOUT_CIRCUITS: Final = (
    "each node that stores or hands out mail sees this machine's network address, and can tell which inboxes it reads "
    "and when"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshAccess:
    """How a client reaches the mesh: nodes to ask first, and since which bucket its identity exists.

    `is_private` lifts the rules on families, for an operator whose nodes share one network (NETWORK 1).
    """

    bootstrap: tuple[RelayPlace, ...]
    since: int | None = None
    is_private: bool = False
    connect: MeshConnector = connect_to_node
    circuits: CircuitMode = CircuitMode.REQUIRED


class MeshHost:
    """Use it as a context manager inside a running event loop."""

    def __init__(
        self,
        access: MeshAccess | None,
        file: ClientFile,
        settings: Settings,
        *,
        clock: Clock,
        entropy: Entropy,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        if access is None:
            raise ConfigurationInvalid("this client knows no mesh: make one with 'restante id new NAME --mesh NODE'")
        self._access = access
        self._file = file
        self._state = MeshState(file.database)
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._on_change = on_change
        self._saving: set[asyncio.Task[None]] = set()
        self._scores: dict[NodeId, float] = {}
        self.circuits: MeshCircuits | None = None

    async def __aenter__(self) -> Self:
        known = await self._file.run(self._state.nodes)
        self.directory = MeshDirectory(
            self._access.bootstrap,
            self._access.connect,
            clock=self._clock,
            entropy=self._entropy,
            is_private=self._access.is_private,
            known=known,
            save=self._save_nodes,
        )
        if self._access.circuits is CircuitMode.REQUIRED:
            self.directory.connections.circuits = await self._circuits()
        self.storage = MeshStorage(self.directory)
        self.prekeys = PrekeyRecords(self.directory, entropy=self._entropy)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.storage.close()
        await self.directory.close()
        await asyncio.gather(*self._saving, return_exceptions=True)

    @property
    def circuit_mode(self) -> CircuitMode:
        return self._access.circuits

    def circuit_status(self) -> PoolStatus | None:
        """What `restante circuits` shows; None if circuits are off."""
        return None if self.circuits is None else self.circuits.pool.status()

    def last_failure(self) -> tuple[int, AttemptFailed] | None:
        """Return how long ago, in ms, a message could not be stored, and why; None if that has not happened."""
        if self.storage.last_failure is None:
            return None
        at_ms, failed = self.storage.last_failure
        return self.directory.now_ms() - at_ms, failed

    async def _circuits(self) -> MeshCircuits:
        stored = StoredGuards(self._file.database)
        guards = await self._file.run(stored.load)
        pool = CircuitPool(
            self.directory.valid,
            _SavedGuards(guards, lambda state: self._save(partial(stored.store, state))),
            limits=self._settings.circuits,
            relay_limits=self._settings.relay,
            clock=self._clock,
            entropy=self._entropy,
            is_private=self._access.is_private,
        )
        self.circuits = MeshCircuits(pool, on_rotating=self.directory.connections.replace)
        return self.circuits

    async def receiver(
        self,
        inboxes: Sequence[InboxToRead],
        results: ReadResults,
        *,
        take: Callable[[OwnInbox, Sequence[StoredBlob]], Awaitable[Collection[PayloadHash]]],
        delay_s: float,
    ) -> MeshReceiver:
        """Return what reads these inboxes, from where the last run ended, and notes in `results` how that goes."""
        buckets = [await self._file.run(partial(self._state.buckets, each.name)) for each in inboxes]
        self._scores = await self._file.run(partial(scoreboard, self._file.database))
        return MeshReceiver(
            list(zip(inboxes, buckets, strict=True)),
            self.directory,
            results,
            take=take,
            save=self._save_buckets,
            scores=lambda: self._scores,
            accuse=self._journal_accusations,
            entropy=self._entropy,
            since=self._access.since,
            delay_s=delay_s,
        )

    async def keep_published(self, identity: Identity, keys: Callable[[], Awaitable[PublishedKeys]]) -> None:
        """Publish the own keys now and every six hours, until cancelled."""
        while True:
            try:
                await self.prekeys.publish(identity, await keys())
                wait_s = PUBLISH_INTERVAL_S
                self._on_change()
            except AttemptFailed:
                wait_s = PUBLISH_RETRY_S
            await asyncio.sleep(wait_s)

    def _save_nodes(self, descriptors: Sequence[bytes]) -> None:
        self._save(partial(self._state.keep_nodes, descriptors))
        self._on_change()

    def _save(self, operation: Callable[[], None]) -> None:
        task = asyncio.create_task(self._file.run(operation))
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    async def _save_buckets(self, inbox: str, buckets: Sequence[Bucket]) -> None:
        def save() -> dict[NodeId, float]:
            self._state.keep_buckets(inbox, buckets)
            return scoreboard(self._file.database)  # 'fleet apply' may have stored a newer one

        self._scores = await self._file.run(save)

    async def _journal_accusations(self, accusations: Sequence[Accusation]) -> None:
        await evidence.journal(self._file, accusations, self._clock.now_ms)


@dataclass(frozen=True, slots=True)
class _SavedGuards:
    """Satisfies `client.circuits.guard_connections.GuardStore`."""

    loaded: GuardState
    save: Callable[[GuardState], None]

    def load(self) -> GuardState:
        return self.loaded
