"""Mail is encrypted at its first lease: until then only its plaintext is stored, sealed under the local key."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from restante.client.client import Client
from restante.crypto.ratchet import MAX_COUNT
from restante.model.error_codes import Code
from restante.model.journal import JournalKind
from restante.model.states import State
from restante.testing.deterministic import FakeClock
from support.client.client_pairs import Post, bodies, client_in, facts, introduce
from support.spec.clauses import clause


class Pair:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = FakeClock()
        self.alice = client_in(home / "alice", clock=self.clock)
        self.bob = client_in(home / "bob", clock=self.clock)
        self.post = Post(self.clock)


@pytest_asyncio.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    made = Pair(tmp_path)
    await introduce(made.alice, made.bob, name="bob")
    await introduce(made.bob, made.alice, name="alice")
    yield made
    await made.alice.close()
    await made.bob.close()


def next_sequence(client: Client, peer: Client) -> int | None:
    session = client.parts.sessions.current(peer.identity.address)
    return None if session is None else session.next_sequence


@clause("3.1", "3.4")
async def test_a_message_has_no_session_number_or_payload_before_its_first_lease(pair: Pair) -> None:
    secret = b"not to be found in the file"
    sent = await pair.alice.send("bob", secret)
    entry = pair.alice.outbox.store.load(sent.message_id)
    assert entry is not None
    assert (entry.payload, secret in entry.sealed_plaintext) == (b"", False)
    assert next_sequence(pair.alice, pair.bob) is None
    [accepted] = facts(pair.alice, JournalKind.ACCEPTED)
    assert (accepted.payload_hash, accepted.sequence, accepted.session_tag) == (None, None, None)
    for file in (pair.home / "alice").glob("client.db*"):
        assert secret not in file.read_bytes()


@clause("3.4", "13.1")
async def test_a_run_is_numbered_in_order_and_journaled_with_its_hashes_at_the_first_lease(pair: Pair) -> None:
    sent = await pair.alice.send_many("bob", [str(number) for number in range(20)])
    await pair.post.deliver(pair.alice, pair.bob)
    attempted = [row for row in facts(pair.alice, JournalKind.ATTEMPTED) if row.payload_hash is not None]
    assert [row.message_id for row in attempted] == [one.message_id for one in sent]
    assert [row.sequence for row in attempted] == list(range(20))
    assert next_sequence(pair.alice, pair.bob) == 20
    assert bodies(pair.bob, pair.clock) == [b"%d" % number for number in range(20)]
    arrived = facts(pair.bob, JournalKind.ARRIVED)
    assert [row.payload_hash for row in arrived] == [row.payload_hash for row in attempted]


@clause("4.4")
async def test_without_a_key_of_the_recipient_the_message_waits_an_hour_with_its_code(pair: Pair) -> None:
    sent = await pair.alice.send("bob", "hello")
    (pair.home / "alice" / "contacts" / "bob.json").unlink()
    pair.alice.contacts.refresh()
    await pair.post.collect(pair.alice)
    status = await pair.alice.status(sent.message_id)
    assert status is not None
    assert (status.state, status.last_error) == (State.PENDING, Code.RECIPIENT_NOT_FOUND)
    assert next_sequence(pair.alice, pair.bob) is None


@clause("4.4")
async def test_a_session_in_which_nothing_can_be_encrypted_is_deleted_and_the_message_leaves_in_another(
    pair: Pair,
) -> None:
    await pair.alice.send("bob", "first")
    await pair.post.exchange(pair.alice, pair.bob, rounds=2)
    sessions, bob = pair.alice.parts.sessions, pair.bob.identity.address
    broken = sessions.current(bob)
    assert broken is not None
    used_up = broken.ratchet._replace(sent=MAX_COUNT, sending_key=broken.ratchet.sending_key or bytes(32))
    await pair.alice.file.run(lambda: sessions.advance(broken, used_up))
    sent = await pair.alice.send("bob", "second")
    for _ in range(4):
        await pair.post.exchange(pair.alice, pair.bob, rounds=1)
        pair.clock.advance(10_000)
    status = await pair.alice.status(sent.message_id)
    assert status is not None
    assert status.state is State.DELIVERED
    assert bodies(pair.bob, pair.clock) == [b"first", b"second"]
    now = sessions.current(bob)
    assert now is not None
    assert now.session_id != broken.session_id
    [retried] = facts(pair.alice, JournalKind.RETRIED)
    assert (retried.message_id, retried.code) == (sent.message_id, Code.ENCRYPTION_FAILED)
