"""What a caller is told about a send, at once and truthfully."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clauses import clause
from restante.client.client import Client
from restante.crypto.identity import Identity
from restante.model.codes import Code
from restante.model.errors import OutOfRange, RestanteError, TooLarge
from restante.model.kinds import Kind
from restante.model.records import Dropped, Queued
from restante.model.states import DropReason
from restante.policy.settings import Settings
from restante.testing.seeded import FakeClock, SeededEntropy

ALICE = Identity(b"a" * 32)
BOB = Identity(b"b" * 32)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = Client(
        tmp_path / "client.db",
        ALICE,
        contacts={BOB.address: BOB.card},
        settings=Settings(),
        clock=FakeClock(),
        entropy=SeededEntropy(1),
    )
    yield made
    made.close()


def held(client: Client) -> int:
    return sum(client.outbox.counts().values())


@clause("3.7")
def test_a_durable_message_is_queued_for_its_destination(client: Client) -> None:
    receipt = client.send(BOB.address, b"hello", lane="relay-1")
    assert receipt.outcomes == (("relay-1", Queued()),)
    entry = client.outbox.load(receipt.message_id)
    assert entry is not None
    assert (entry.lane, entry.kind) == ("relay-1", Kind.TEXT)


@clause("2.4", "3.7")
def test_a_position_without_a_live_path_is_dropped_with_the_reason_and_never_queued(client: Client) -> None:
    receipt = client.send(BOB.address, b"52.1 4.3", lane="relay-1", kind=Kind.POSITION)
    assert receipt.outcomes == (("relay-1", Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)),)
    assert held(client) == 0


@clause("2.5")
def test_a_ttl_outside_its_range_is_refused_with_the_range_and_nothing_is_kept(client: Client) -> None:
    with pytest.raises(OutOfRange, match=r"ttl_s of text = 59 is outside 3600\.\.7776000 s"):
        client.send(BOB.address, b"hello", lane="relay-1", ttl_s=59)
    assert held(client) == 0


@clause("2.8")
def test_a_message_that_is_too_large_is_refused_by_its_code_and_nothing_is_kept(client: Client) -> None:
    with pytest.raises(TooLarge) as refused:
        client.send(BOB.address, bytes(262_144), lane="relay-1")
    assert refused.value.code is Code.MESSAGE_TOO_LARGE
    assert held(client) == 0


def test_a_refused_send_uses_up_no_sequence_number(client: Client) -> None:
    with pytest.raises(TooLarge):
        client.send(BOB.address, bytes(262_144), lane="relay-1")
    client.send(BOB.address, b"first", lane="relay-1")
    [first] = client.journal.facts(after=0, limit=10)
    assert first.sequence == 0


def test_a_stranger_cannot_be_written_to(client: Client) -> None:
    with pytest.raises(RestanteError, match="not among the contacts") as refused:
        client.send(ALICE.address, b"to myself", lane="relay-1")
    assert refused.value.code is Code.NOT_FOUND
