"""What a thief finds on the disk of a client."""

from pathlib import Path

from clauses import clause
from restante.client.client import Client
from restante.crypto.identity import Identity
from restante.policy.settings import Settings
from restante.testing.seeded import FakeClock, SeededEntropy

SECRET = b"the treasure is under the third oak"


def client(home: Path, identity: Identity, peer: Identity) -> Client:
    return Client(
        home / "client.db",
        identity,
        contacts={peer.address: peer.card},
        settings=Settings(),
        clock=FakeClock(),
        entropy=SeededEntropy(home.name.encode()[0]),
    )


def disk(home: Path) -> dict[str, bytes]:
    """The database as it lies there, and what SQLite keeps beside it."""
    found = {file.name: file.read_bytes() for file in home.iterdir()}
    assert len(found["client.db-wal"]) > 10_000  # the message is in there, and not yet in the main file
    return found


@clause("3.1")
def test_the_text_of_a_message_is_in_no_byte_on_either_side(tmp_path: Path) -> None:
    alice, bob = Identity(b"a" * 32), Identity(b"b" * 32)
    sender = client(tmp_path / "alice", alice, bob)
    reader = client(tmp_path / "bob", bob, alice)
    sender.send(bob.address, SECRET, lane="relay-1")
    leased = sender.outbox.lease_next(owner="me", now_ms=FakeClock().now_ms())
    assert leased is not None
    reader.arrive(leased.payload, server_timestamp_ms=0)
    [(_, entry)] = reader.received()
    assert entry.plaintext == SECRET
    for home in ("alice", "bob"):
        for name, raw in disk(tmp_path / home).items():
            assert SECRET not in raw, name
            assert SECRET[:12] not in raw, name
    sender.close()
    reader.close()
    for home in ("alice", "bob"):
        assert SECRET not in (tmp_path / home / "client.db").read_bytes()


def test_the_keys_of_an_identity_are_in_no_byte_of_its_database(tmp_path: Path) -> None:
    seed = bytes(range(32))
    mine, theirs = Identity(seed), Identity(b"t" * 32)
    some = client(tmp_path / "mine", mine, theirs)
    some.send(theirs.address, SECRET, lane="relay-1")
    for raw in disk(tmp_path / "mine").values():
        for key in (seed, mine.storage_key, mine.tag_secret):
            assert key not in raw
    some.close()
