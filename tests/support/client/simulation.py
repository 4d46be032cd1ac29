"""Two whole clients and a relay in one process, on virtual time and a bad network; for the simulations."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from restante.client.client import Client
from restante.client.contacts import ContactBook
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.crypto.identity import Identity
from restante.model.ids import MessageId, node_key
from restante.model.inbox_entry import InboxEntry
from restante.model.journal import STATE_AFTER, JournalEvent
from restante.model.places import RelayPlace
from restante.model.states import State
from restante.policy.failures import Failure
from restante.policy.retry import RetrySchedule
from restante.policy.settings import Settings
from restante.ports.mailbox_store import MailboxStore
from restante.ports.relay_connection import AttemptFailed, RelayConnection
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.testing.lossy_connection import FaultCounts, Faults, LossyConnection
from restante.testing.memory_relay import MemoryRelay, MemoryRelayConnection

SETTINGS: Final = Settings(retry=RetrySchedule(base_ms=100, max_delay_ms=60_000))
PATIENCE_S: Final = 3_600.0
"""Of virtual time: far more than the retries of any seed need, far less than any TTL or queue time."""
TICK_S: Final = 0.5
TRAVEL_S: Final = 0.03


class Endpoint:
    """One identity, its file, and the network between it and the relay."""

    def __init__(self, name: str, stage: "Stage") -> None:
        self.name = name
        self.identity = stage.identity(name)
        self.sent: list[bytes] = []
        self.counts = FaultCounts()
        self._stage = stage
        self._lives = 0
        self._links: list[MemoryRelayConnection] = []
        self._alive = asyncio.Lock()
        self._working: asyncio.Task[None] | None = None
        self.client = self._open()

    async def say(self, body: bytes) -> MessageId:
        async with self._alive:
            receipt = await self.client.send(self.peer.identity.address, body)
        self.sent.append(body)
        return receipt.message_id

    @property
    def peer(self) -> "Endpoint":
        return self._stage.bob if self is self._stage.alice else self._stage.alice

    async def meet(self, other: "Endpoint") -> None:
        """Have the other's card and prekeys, as from a file."""
        self.client.contacts.add(replace(await other.client.as_contact(), name=other.name))

    def entries(self) -> list[InboxEntry]:
        now_ms = self._stage.clock.now_ms()
        return [entry for _, entry in self.client.received.released(after=0, limit=100_000, now_ms=now_ms)]

    def received(self) -> list[bytes]:
        return [entry.plaintext for entry in self.entries()]

    def facts(self) -> list[JournalEvent]:
        return self.client.journal.events(after=0, limit=1_000_000)

    def counts_by_state(self) -> dict[State, int]:
        return self.client.outbox.store.counts()

    def final_states(self) -> dict[MessageId, State]:
        """Where the journal leaves each message this side accepted."""
        return {
            row.message_id: STATE_AFTER[row.kind]
            for row in self.facts()
            if row.kind in STATE_AFTER and row.message_id is not None
        }

    def go_online(self, connect: Callable[[], Awaitable[RelayConnection]] | None = None) -> None:
        """Over the stage's network, unless the test has links of its own."""

        life = self._lives

        async def connected(_relay: RelayPlace, inbox: OwnInbox | None) -> RelayConnection:
            return await (connect() if connect is not None else self._connect(inbox, life))

        self._working = asyncio.create_task(self.client.run(connected))

    def is_online(self) -> bool:
        return self._working is not None

    async def go_offline(self) -> None:
        working, self._working = self._working, None
        if working is None:
            return
        if working.done():
            await working  # it ends by itself only by an error
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working

    async def die_and_come_back(self) -> None:
        """What a kill -9 leaves is what is in the file now; whatever the old life still does is lost with it.

        Nothing is said meanwhile: the old life could still promise, and send, what the new one knows nothing of.
        """
        async with self._alive:
            before = self._path()
            self._lives += 1
            self._hang_up()
            for suffix in ("", "-wal", "-counter"):
                shutil.copy(f"{before}{suffix}", f"{self._path()}{suffix}")
            await self.go_offline()
            await self.client.close()
            self.client = self._open()
            self.go_online()

    async def close(self) -> None:
        await self.go_offline()
        await self.client.close()

    def _path(self) -> Path:
        return self._stage.home / f"{self.name}-{self._lives}.db"

    def _open(self) -> Client:
        client = Client(
            self._path(),
            self.identity,
            contacts=ContactBook(self._stage.home / f"contacts of {self.name}"),
            places=(self._stage.place,),
            settings=self._stage.settings,
            clock=self._stage.clock,
            entropy=self._stage.entropy(f"{self.name}, life {self._lives}"),
            receive_delay_s=0.0,
        )
        # A group commit waits for a slow disk in a thread: on a busy machine that would change the order of things.
        client.file.commits._time_s = lambda: 0.0
        client.file.commits._disk_took_s = 0.0
        return client

    def _hang_up(self) -> None:
        """End every link of the old life, so that nothing leaves that the new one knows nothing of."""
        while self._links:
            self._stage.relay.drop(self._links.pop())

    async def _connect(self, inbox: OwnInbox | None, life: int) -> RelayConnection:
        if life != self._lives:
            raise AttemptFailed("this life is over", failure=Failure.CONNECTION_REFUSED)
        link = self._stage.relay.link(inbox)
        self._links.append(link)
        return LossyConnection(link, self._stage.faults, self._stage.network, self.counts)


@dataclass(kw_only=True)
class Stage:
    """All that one seed decides. Everything but making it happens in virtual time, `met` first."""

    home: Path
    seed: int
    faults: Faults
    store: MailboxStore
    settings: Settings = SETTINGS
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.network = self.entropy("network")
        self.relay = MemoryRelay(
            self.identity("relay"), self.store, quota=SETTINGS.mailbox, clock=self.clock, travel_s=TRAVEL_S
        )
        self.place = RelayPlace(node_key=node_key(self.relay.identity.node_key), host="127.0.0.1", port=7431)
        self.alice = Endpoint("alice", self)
        self.bob = Endpoint("bob", self)
        self.both = (self.alice, self.bob)

    def entropy(self, purpose: str) -> SeededEntropy:
        return SeededEntropy(int.from_bytes(f"{self.seed} {purpose}".encode(), "big"))

    def identity(self, name: str) -> Identity:
        return Identity(self.entropy(f"identity of {name}").draw(32))

    @contextlib.asynccontextmanager
    async def met(self) -> AsyncIterator[None]:
        """The two have each other's cards; their files are closed in the end."""
        await self.alice.meet(self.bob)
        await self.bob.meet(self.alice)
        try:
            yield
        finally:
            for endpoint in self.both:
                await endpoint.go_offline()

    @contextlib.asynccontextmanager
    async def online(self) -> AsyncIterator[None]:
        for endpoint in self.both:
            if not endpoint.is_online():
                endpoint.go_online()
        try:
            yield
        finally:
            for endpoint in self.both:
                await endpoint.go_offline()

    async def settle(self, *, patience_s: float = PATIENCE_S) -> None:
        """Until nothing is in flight on either side."""
        async with asyncio.timeout(patience_s):
            while True:
                if await self.alice.client.is_settled() and await self.bob.client.is_settled():
                    return
                await asyncio.sleep(TICK_S)

    def close(self) -> None:
        for endpoint in self.both:
            endpoint.client.file.commits.close()
