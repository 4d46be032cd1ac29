"""Public and contacts inbox: the access secret travels inside the session (SPEC 7.2, 8.8)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restante.client.client import Client
from restante.client.places.mail_carrier import MailCarrier
from restante.core.inboxes.relay_inbox import OwnInbox, relay_inbox_key
from restante.crypto.blinded_keys import NO_SECRET
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey
from restante.model.places import RelayPlace
from restante.model.states import Route
from restante.policy.quota import MailboxQuota
from restante.policy.reorder_limits import MAX_UNRECEIPTED_AT_SWITCH
from restante.policy.retry import RetrySchedule
from restante.ports.relay_connection import RelayConnection
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.testing.memory_mailbox import MemoryMailbox
from restante.testing.memory_relay import MemoryRelay
from restante.wire.envelope import decode_envelope
from restante.wire.storage_receipts import StorageReceipt
from support.client.client_pairs import RELAY, bodies, client_in, introduce
from support.spec.clauses import clause


class Meeting:
    """Alice and Bob, each a contact of the other, and what they put at a relay."""

    def __init__(self, home: Path) -> None:
        self.clock = FakeClock()
        self.alice, self.bob = (client_in(home / name, clock=self.clock) for name in ("alice", "bob"))
        self.put: list[bytes] = []

    async def deliver(self, sender: Client, reader: Client) -> list[InboxKey]:
        """Send everything that is due by the relay carrier and hand it over; return the inbox keys it used."""
        relay = _Recording(self.clock)

        async def connect(_place: RelayPlace, inbox: OwnInbox | None) -> RelayConnection:
            return relay.link(inbox)

        await sender.run_maintenance()
        async with MailCarrier(
            sender.contacts,
            connect,
            schedule=RetrySchedule(),
            clock=self.clock,
            entropy=SeededEntropy(1),
            secret_of=sender.parts.access.secret_of,
        ) as carrier:
            await sender.outbox.drain({Route.RELAY: carrier})
        for secret in (NO_SECRET, reader.identity.access_secret):
            inbox = relay_inbox_key(reader.identity.address, RELAY.node_key, secret)
            blobs = relay.store.flush(inbox, after=0, limit=1_000, max_bytes=10**9, now_ms=self.clock.now_ms()).blobs
            await reader.receive(blobs)
        return [decode_envelope(raw).inbox_key for raw in relay.taken]


class _Recording(MemoryRelay):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__(Identity(b"n" * 32), MemoryMailbox(), quota=MailboxQuota(), clock=clock)
        self.taken: list[bytes] = []

    def take(self, raw: bytes) -> StorageReceipt:
        self.taken.append(raw)
        return super().take(raw)


@pytest.fixture
async def meeting(tmp_path: Path) -> AsyncIterator[Meeting]:
    meeting = Meeting(tmp_path)
    await introduce(meeting.alice, meeting.bob)
    await introduce(meeting.bob, meeting.alice)
    yield meeting
    for client in (meeting.alice, meeting.bob):
        await client.close()


def inbox_of(client: Client, secret: bytes) -> InboxKey:
    return relay_inbox_key(client.identity.address, RELAY.node_key, secret)


@clause("7.2", "8.8")
async def test_the_first_message_goes_to_the_public_inbox_and_later_ones_to_the_contacts_inbox(
    meeting: Meeting,
) -> None:
    alice, bob = meeting.alice, meeting.bob
    public, private = (inbox_of(bob, secret) for secret in (NO_SECRET, bob.identity.access_secret))
    await alice.send(bob.identity.address, b"first")
    assert await meeting.deliver(alice, bob) == [public]
    await meeting.deliver(bob, alice)  # with Bob's access secret
    await alice.send(bob.identity.address, b"second")
    assert set(await meeting.deliver(alice, bob)) == {private}
    assert bodies(bob, meeting.clock) == [b"first", b"second"]


@clause("7.2", "9.4")
async def test_mail_stays_in_the_public_inbox_until_the_recipient_has_read_nearly_all_of_it(meeting: Meeting) -> None:
    """A recipient reads both inboxes at once: what is new must not come too far ahead of a long backlog."""
    alice, bob = meeting.alice, meeting.bob
    public, private = (inbox_of(bob, secret) for secret in (NO_SECRET, bob.identity.access_secret))
    await alice.send(bob.identity.address, b"first")
    await meeting.deliver(alice, bob)
    for number in range(MAX_UNRECEIPTED_AT_SWITCH + 1):
        await alice.send(bob.identity.address, b"%d" % number)
    await meeting.deliver(bob, alice)  # with Bob's access secret
    assert set(await meeting.deliver(alice, bob)) == {public}
    await meeting.deliver(bob, alice)  # with receipts
    await alice.send(bob.identity.address, b"last")
    assert set(await meeting.deliver(alice, bob)) == {private}


@clause("8.8")
async def test_somebody_who_was_not_added_gets_no_access_secret(meeting: Meeting, tmp_path: Path) -> None:
    carol = client_in(tmp_path / "carol", clock=meeting.clock)
    await introduce(carol, meeting.bob)
    await carol.send(meeting.bob.identity.address, b"let me in")
    await meeting.deliver(carol, meeting.bob)
    assert await meeting.deliver(meeting.bob, carol) == []
    await carol.close()


@clause("8.8")
async def test_a_secret_is_told_once_and_kept_over_a_restart(meeting: Meeting, tmp_path: Path) -> None:
    await meeting.alice.send(meeting.bob.identity.address, b"first")
    await meeting.deliver(meeting.alice, meeting.bob)
    await meeting.deliver(meeting.bob, meeting.alice)
    assert meeting.alice.parts.access.secret_of(meeting.bob.identity.address) == meeting.bob.identity.access_secret
    assert await meeting.deliver(meeting.bob, meeting.alice) == []
    again = client_in(tmp_path / "alice", clock=meeting.clock)
    await again.run_maintenance()
    assert again.parts.access.secret_of(meeting.bob.identity.address) == meeting.bob.identity.access_secret
    await again.close()
