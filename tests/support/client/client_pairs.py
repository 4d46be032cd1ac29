"""Clients in directories of their own, introduced to each other, with a post that is carried by hand."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from restante.client.client import Client
from restante.client.contacts import CONTROL_LANE, ContactBook
from restante.client.home import ClientDirectory
from restante.core.relay_envelope import build_relay_envelope
from restante.model.ids import node_key
from restante.model.inbox_entry import InboxEntry
from restante.model.journal import JournalEvent, JournalKind
from restante.model.outbox_entry import OutboxEntry
from restante.model.places import RelayPlace
from restante.model.states import Route
from restante.policy.settings import Settings
from restante.ports.carrier import StoredByNode
from restante.ports.relay_connection import StoredBlob
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.wire.address import parse_address

RELAY = RelayPlace(node_key=node_key(b"n" * 32), host="127.0.0.1", port=7431)
DEFAULTS = Settings()


def client_in(
    home: Path,
    *,
    clock: FakeClock,
    settings: Settings = DEFAULTS,
    seed: int = 1,
    sends_read_acks: bool = False,
    entropy: SeededEntropy | None = None,
) -> Client:
    """The client of this directory, which is made if it is not there."""
    directory = ClientDirectory(home)
    entropy = entropy or SeededEntropy(int.from_bytes(home.name.encode()) + seed)
    if not home.exists():
        directory.create(RELAY, entropy)
    return Client.open(home, settings=settings, clock=clock, entropy=entropy, sends_read_acks=sends_read_acks)


async def introduce(one: Client, other: Client, *, name: str = "peer") -> None:
    """`one` has the other's card and prekeys, as from a file."""
    contacts: ContactBook = one.contacts
    contacts.add(replace(await other.as_contact(), name=name))


def facts(client: Client, kind: JournalKind | None = None) -> list[JournalEvent]:
    rows = client.journal.events(after=0, limit=1_000_000)
    return [row for row in rows if kind is None or row.kind is kind]


def security(client: Client) -> list[str | None]:
    return [row.code for row in facts(client, JournalKind.SECURITY)]


def shown(client: Client, clock: FakeClock) -> list[InboxEntry]:
    return [entry for _, entry in client.received.released(after=0, limit=100_000, now_ms=clock.now_ms())]


def bodies(client: Client, clock: FakeClock) -> list[bytes]:
    return [entry.plaintext for entry in shown(client, clock)]


@dataclass(slots=True)
class Post:
    """Everything that left a client, until somebody is given it."""

    clock: FakeClock
    carried: list[bytes] = field(default_factory=list)

    def is_up(self) -> bool:
        return True

    def is_connected(self, lane: str) -> bool:
        return bool(lane)

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        envelope = build_relay_envelope(
            entry.payload,
            recipient=parse_address(entry.lane.removeprefix(CONTROL_LANE)),
            relay=RELAY.node_key,
            kind=entry.kind,
            expires_at_ms=entry.expires_at_ms,
            now_ms=self.clock.now_ms(),
        )
        self.carried.append(envelope)
        return ()

    async def collect(self, client: Client) -> list[bytes]:
        """What the client has to send, as envelopes in order."""
        await client.outbox.drain({Route.RELAY: self})
        carried, self.carried = self.carried, []
        return carried

    def blobs(self, envelopes: list[bytes]) -> list[StoredBlob]:
        return [StoredBlob(number, self.clock.now_ms(), envelope) for number, envelope in enumerate(envelopes, start=1)]

    async def deliver(self, sender: Client, reader: Client) -> list[bytes]:
        """All at once, in order."""
        envelopes = await self.collect(sender)
        await reader.receive(self.blobs(envelopes))
        return envelopes

    async def exchange(self, one: Client, other: Client, *, rounds: int = 4) -> None:
        """To and fro until receipts and resets are through."""
        for _ in range(rounds):
            for sender, reader in ((one, other), (other, one)):
                await sender.run_maintenance()
                self.clock.advance(1_100)
                await sender.run_maintenance()
                await self.deliver(sender, reader)
