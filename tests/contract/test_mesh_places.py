"""The mesh as one of a contact's places, and what a node's refusal means there (SPEC 3.14, 6.7)."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from restante.client.contacts import Recipient
from restante.client.outbox import Destination, Message, Outbox
from restante.client.places.mail_carrier import MailCarrier
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import Address, NodeId
from restante.model.journal import StorageReceipt
from restante.model.outbox_entry import OutboxEntry
from restante.model.places import MeshPlace, Place, RelayPlace
from restante.model.states import Route, State
from restante.policy.mesh.time_buckets import DAY_MS
from restante.policy.quota import MailboxQuota
from restante.policy.retry import RetrySchedule
from restante.ports.carrier import StoredByNode
from restante.ports.relay_connection import RelayConnection
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.testing.memory_mailbox import MemoryMailbox
from restante.testing.memory_relay import MemoryRelay
from restante.testing.virtual_time import run_in_virtual_time
from support.client.client_pairs import RELAY
from support.mesh.memory_world import World, introduced, received
from support.spec.clauses import clause

BOB = Identity(b"b" * 32)
LANE = "bob"


class Book:
    def __init__(self, places: Sequence[Place]) -> None:
        self.places = tuple(places)

    def recipient(self, lane: str) -> Recipient | None:
        return Recipient(BOB.address, self.places) if lane == LANE else None


class Places:
    """A mesh and a relay that store everything, and which of them did, in order."""

    def __init__(self, clock: FakeClock) -> None:
        self.used: list[str] = []
        self._relay = MemoryRelay(Identity(b"n" * 32), MemoryMailbox(), quota=MailboxQuota(), clock=clock)

    def can_try(self) -> bool:
        return True

    async def store(self, entry: OutboxEntry, *, recipient: Address, access_secret: bytes) -> tuple[StoredByNode, ...]:
        assert (entry.payload, recipient, access_secret) == (b"sealed", BOB.address, b"")
        self.used.append("mesh")
        receipt = StorageReceipt(bytes(32), bytes(8), bytes(32), 0, bytes(64))
        return tuple(StoredByNode(NodeId(bytes([number]) * 32), receipt) for number in (1, 2))

    async def connect(self, place: RelayPlace, inbox: OwnInbox | None) -> RelayConnection:
        assert place == RELAY
        self.used.append("relay")
        return self._relay.link(inbox)


@clause("3.14", "10.4")
@pytest.mark.parametrize(
    ("places", "used"),
    [
        ((MeshPlace(), RELAY), ["mesh", "relay"]),
        ((RELAY, MeshPlace()), ["relay", "mesh"]),
        ((MeshPlace(),), ["mesh", "mesh"]),
    ],
)
async def test_a_message_without_receipt_is_stored_once_more_at_the_next_place(
    tmp_path: Path, places: Sequence[Place], used: list[str]
) -> None:
    clock = FakeClock()
    both = Places(clock)
    outbox = Outbox.open(tmp_path / "client.db", clock=clock, entropy=SeededEntropy(1))
    async with MailCarrier(
        Book(places), both.connect, schedule=RetrySchedule(), clock=clock, entropy=SeededEntropy(2), mesh=both
    ) as carrier:
        await outbox.send(Message(payload=b"sealed"), Destination(Route.MESH, LANE))
        for expected in (used[:1], used, used):
            await outbox.drain({Route.MESH: carrier})
            assert both.used == expected
            clock.advance(DAY_MS)
    await outbox.close()


@clause("6.7", "4.3")
def test_what_nodes_refuse_for_good_is_refused_by_them_alone_and_stays_in_the_outbox(tmp_path: Path) -> None:
    """A node that says "too large" of everything may lie. The client itself checks what can never be stored."""
    world = World(tmp_path)

    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            for node in world.mesh.nodes:
                node.refuses_puts = True
            sent = await alice.send("peer", "not too large")
            await asyncio.sleep(60)
            status = await alice.status(sent.message_id)
            assert status is not None
            assert (status.state, status.last_error) == (State.PENDING, Code.STORAGE_FAILED)
            for node in world.mesh.nodes[:-4]:
                node.refuses_puts = False
            assert await received(bob, 1) == ["not too large"]

    run_in_virtual_time(scenario(), world.clock)
