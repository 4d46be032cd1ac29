"""What a thief finds on the disk of a client."""

from pathlib import Path

from restante.client.client import Client
from restante.testing.deterministic import FakeClock
from support.client.client_pairs import Post, bodies, client_in, introduce
from support.spec.clauses import clause

SECRET = b"the treasure is under the third oak"


async def told(home: Path, clock: FakeClock) -> tuple[Client, Client]:
    """Alice has told Bob the secret, and Bob has answered."""
    alice, bob = client_in(home / "alice", clock=clock), client_in(home / "bob", clock=clock)
    await introduce(alice, bob)
    await introduce(bob, alice)
    await alice.send(bob.identity.address, SECRET)
    await Post(clock).exchange(alice, bob)
    assert bodies(bob, clock) == [SECRET]
    await alice.send(bob.identity.address, SECRET)
    return alice, bob


def disk(home: Path) -> dict[str, bytes]:
    """The database as it lies there, and what SQLite keeps beside it."""
    found = {file.name: file.read_bytes() for file in home.iterdir() if file.name.startswith("client.db")}
    assert len(found["client.db-wal"]) > 10_000  # the message is in there, and not yet in the main file
    return found


@clause("3.1")
async def test_the_text_of_a_message_is_in_no_byte_on_either_side(tmp_path: Path) -> None:
    alice, bob = await told(tmp_path, FakeClock())
    for home in ("alice", "bob"):
        for name, raw in disk(tmp_path / home).items():
            assert SECRET not in raw, name
            assert SECRET[:12] not in raw, name
    await alice.close()
    await bob.close()
    for home in ("alice", "bob"):
        assert SECRET not in (tmp_path / home / "client.db").read_bytes()


@clause("8.6")
async def test_no_key_of_an_identity_a_session_or_a_prekey_is_in_a_byte_of_its_database(tmp_path: Path) -> None:
    alice, bob = await told(tmp_path, FakeClock())
    keys: list[bytes] = []
    for client, peer in ((alice, bob), (bob, alice)):
        keys += [client.identity.storage_key, client.identity.tag_secret]
        keys.append((tmp_path / ("alice" if client is alice else "bob") / "identity").read_bytes())
        store = client.parts.sessions
        session = store.current(peer.identity.address)
        assert session is not None
        ratchet = session.ratchet
        keys += [key for key in (ratchet.root_key, ratchet.sending_key, ratchet.receiving_key) if key]
        if ratchet.own_key is not None:
            keys.append(ratchet.own_key.private_bytes_raw())
        prekeys = store.prekeys()
        keys += [*prekeys.one_time.values(), *(key for one in prekeys.signed for key in (one.private, one.kem_seed))]
    assert len(keys) > 200
    for home in ("alice", "bob"):
        for raw in disk(tmp_path / home).values():
            assert not any(key in raw for key in keys)
    await alice.close()
    await bob.close()
