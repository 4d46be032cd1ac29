"""Journals leaving as Parquet: whole or not at all, and nobody's address in them."""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from restante.client.client import Client
from restante.core.inboxes.relay_inbox import relay_inbox_key
from restante.core.mailbox import Keep, check_put
from restante.model.errors import StoreUnusable
from restante.model.ids import MessageId
from restante.model.journal import JournalEvent, JournalKind
from restante.policy.settings import Settings
from restante.runtime.journal import segment_writer
from restante.runtime.journal.segment_directory import DirectoryDepot
from restante.runtime.sqlite.file.journal import Journal
from restante.testing.deterministic import FakeClock
from restante.wire.address import show_address
from restante.wire.journal_schema import from_record
from restante.wire.segment_manifest import Manifest, decode_manifest, manifest_name
from support.client.client_pairs import RELAY, Post, client_in, introduce, shown
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, NodeFile, facts, open_node_file
from support.system.full_disk import no_file_longer_than

NOBODY = 65_534


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeFile]:
    made = open_node_file(tmp_path / "node.db")
    yield made
    made.database.close()


def note(node: NodeFile, count: int = 1) -> None:
    with node.database.transaction():
        for _ in range(count):
            node.journal.append(JournalKind.SECURITY, at_ms=NOW_MS, code="E101", latency_ms=-3)


def read_back(paths: list[Path]) -> list[JournalEvent]:
    return [from_record(record) for path in paths for record in parquet.read_table(path).to_pylist()]


def ship(journal: Journal, directory: Path) -> list[Path]:
    return [directory / name for name in segment_writer.ship(journal, DirectoryDepot(directory))]


def manifest_path(segment: Path) -> Path:
    return segment.with_name(manifest_name(segment.name))


def names(directory: Path) -> list[str]:
    """What lies there besides manifests."""
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("_"))


@clause("13.1")
def test_shipped_facts_read_back_equal(node: NodeFile, tmp_path: Path) -> None:
    note(node, 3)
    shipped = ship(node.journal, tmp_path / "out")
    assert read_back(shipped) == facts(node.journal)
    assert len(facts(node.journal)) == 3


@clause("13.1")
def test_a_segment_is_named_by_its_writer_and_its_facts_and_nothing_lies_beside_it(
    node: NodeFile, tmp_path: Path
) -> None:
    note(node, 3)
    ship(node.journal, tmp_path / "out")
    name = f"{node.journal.writer.hex()}-0000000000000001-0000000000000003"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"{name}.parquet", f"_{name}.manifest.json"}


@clause("13.1")
def test_a_manifest_says_whose_facts_which_how_many_and_the_hash_of_the_file(node: NodeFile, tmp_path: Path) -> None:
    note(node, 5)
    node.journal.mark_shipped(2)
    [path] = ship(node.journal, tmp_path / "out")
    manifest = decode_manifest(manifest_path(path).read_bytes())
    raw = path.read_bytes()
    assert manifest == Manifest(
        segment=path.name,
        writer=node.journal.writer.hex(),
        first=3,
        last=5,
        rows=3,
        size_bytes=len(raw),
        schema_version=1,
        sha256=hashlib.sha256(raw).hexdigest(),
    )


def test_drafts_of_killed_processes_are_cleared_away_and_those_of_the_living_are_not(
    node: NodeFile, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    stem = f".{node.journal.writer.hex()}-1-2.parquet"
    abandoned, alive = out / f"{stem}.{gone.pid}.partial", out / f"{stem}.{os.getpid()}.partial"
    abandoned.touch()
    alive.touch()
    note(node)
    [path] = ship(node.journal, out)
    assert names(out) == sorted([alive.name, path.name])


def test_shipping_again_ships_only_what_is_new(node: NodeFile, tmp_path: Path) -> None:
    assert ship(node.journal, tmp_path / "out") == []
    note(node, 2)
    first = ship(node.journal, tmp_path / "out")
    assert ship(node.journal, tmp_path / "out") == []
    note(node, 2)
    second = ship(node.journal, tmp_path / "out")
    assert read_back(first) + read_back(second) == facts(node.journal)
    assert len(first) == len(second) == 1


@clause("13.1")
def test_a_segment_shipped_twice_is_the_same_file(node: NodeFile, tmp_path: Path) -> None:
    note(node, 3)
    [first] = ship(node.journal, tmp_path / "out")
    before = first.read_bytes()
    node.journal.mark_shipped(0)  # as if the machine had died before it could remember
    assert ship(node.journal, tmp_path / "out") == [first]
    assert names(tmp_path / "out") == [first.name]
    assert first.read_bytes() == before


def test_a_long_journal_leaves_in_several_segments(
    node: NodeFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "ROWS_PER_SEGMENT", 4)
    note(node, 10)
    shipped = ship(node.journal, tmp_path / "out")
    assert [parquet.read_metadata(path).num_rows for path in shipped] == [4, 4, 2]
    assert read_back(shipped) == facts(node.journal)


def test_a_flipped_bit_in_a_segment_is_noticed_by_its_reader(node: NodeFile, tmp_path: Path) -> None:
    note(node, 100)
    [path] = ship(node.journal, tmp_path / "out")
    column = parquet.read_metadata(path).row_group(0).column(0)
    raw = bytearray(path.read_bytes())
    raw[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises((OSError, pa.ArrowException)):
        parquet.read_table(path, page_checksum_verification=True)


def refuse(node: NodeFile, directory: Path) -> None:
    with pytest.raises(StoreUnusable, match="a journal segment cannot be written"):
        ship(node.journal, directory)
    assert node.journal.shipped_through() == 0


def test_a_directory_that_cannot_be_made_is_refused_and_nothing_counts_as_shipped(
    node: NodeFile, tmp_path: Path
) -> None:
    note(node)
    (tmp_path / "out").write_text("in the way", "utf-8")
    refuse(node, tmp_path / "out")
    refuse(node, tmp_path / "out" / "deeper")


def test_a_directory_that_cannot_be_written_is_refused(node: NodeFile) -> None:
    note(node)
    with tempfile.TemporaryDirectory() as name:  # not below tmp_path, whose parents are closed to other users
        closed = Path(name)
        closed.chmod(0o555)
        was_root = os.geteuid() == 0  # whom permissions do not bind
        if was_root:
            os.seteuid(NOBODY)
        try:
            with pytest.raises(StoreUnusable, match="Permission denied"):
                segment_writer.ship_next(DirectoryDepot(closed), node.journal)
        finally:
            if was_root:
                os.seteuid(0)
            closed.chmod(0o700)


def test_a_full_disk_leaves_no_part_of_a_segment(node: NodeFile, tmp_path: Path) -> None:
    note(node, 100)
    with no_file_longer_than(100), pytest.raises(StoreUnusable, match="a journal segment cannot be written"):
        segment_writer.ship_next(DirectoryDepot(tmp_path / "out"), node.journal)
    assert names(tmp_path / "out") == []


async def pair(home: Path, clock: FakeClock) -> tuple[Client, Client]:
    alice, bob = client_in(home / "alice", clock=clock), client_in(home / "bob", clock=clock)
    await introduce(alice, bob)
    await introduce(bob, alice)
    return alice, bob


async def correspond(alice: Client, bob: Client, node: NodeFile, clock: FakeClock) -> MessageId:
    """One message from Alice by the node to Bob."""
    message_id = (await alice.send(bob.identity.address, b"hello")).message_id
    post = Post(clock)
    *_, envelope = await post.collect(alice)  # what has no receipt after a day is stored again
    quota = Settings().mailbox
    keep = check_put(envelope, quota=quota, now_ms=clock.now_ms())
    assert isinstance(keep, Keep)
    [blob_id] = node.mailbox.put_all([keep], quota=quota, now_ms=clock.now_ms())
    assert isinstance(blob_id, int)
    await bob.receive(post.blobs([envelope, b"garbage"]))
    node.mailbox.delete_all(keep.inbox_key, [blob_id], now_ms=clock.now_ms())
    return message_id


def forms(secret: bytes) -> list[bytes]:
    return [secret, secret[:16], secret[16:], secret.hex().encode(), secret.hex().upper().encode()]


@clause("13.1")
async def test_no_address_inbox_or_session_is_in_any_byte_of_a_segment(node: NodeFile, tmp_path: Path) -> None:
    clock = FakeClock()
    alice, bob = await pair(tmp_path, clock)
    message_id = await correspond(alice, bob, node, clock)
    [received] = shown(bob, clock)
    people = (alice.identity, bob.identity)
    never = [form for who in people for form in (*forms(who.address), show_address(who.address).encode())]
    never += [form for who in people for form in forms(relay_inbox_key(who.address, RELAY.node_key))]
    never += forms(received.session_id)
    shipped = [ship(journal, tmp_path / "out") for journal in (alice.journal, bob.journal, node.journal)]
    for [path] in shipped:
        cells = [str(cell).encode() if isinstance(cell, str | int) else cell for cell in cells_of(path)]
        assert len(cells) > 10
        for raw in [path.read_bytes(), manifest_path(path).read_bytes(), path.name.encode(), *cells]:
            assert not [form for form in never if form in raw]
    by_alice, by_bob, by_node = (read_back(paths) for paths in shipped)
    assert message_id in {row.message_id for row in by_alice} & {row.message_id for row in by_bob}
    assert {row.message_id for row in by_node} == {None}
    await alice.close()
    await bob.close()


def cells_of(path: Path) -> list[bytes | str | int]:
    """Every value in the file, unpacked: compression would hide an address from a search of the bytes."""
    table = parquet.read_table(path)
    return [cell for column in table.to_pydict().values() for cell in column if cell is not None]


@clause("13.1")
async def test_the_hash_of_the_sealed_bytes_joins_endpoints_and_nodes_and_tags_do_not(
    node: NodeFile, tmp_path: Path
) -> None:
    clock = FakeClock()
    alice, bob = await pair(tmp_path, clock)
    await correspond(alice, bob, node, clock)
    clock.advance(86_400_000)
    await correspond(alice, bob, node, clock)
    by_alice, by_bob, by_node = (facts(journal) for journal in (alice.journal, bob.journal, node.journal))

    def hashes(rows: list[JournalEvent]) -> set[bytes]:
        return {row.payload_hash for row in rows if row.payload_hash is not None}

    def tags(rows: list[JournalEvent]) -> set[bytes]:
        return {row.session_tag for row in rows if row.session_tag is not None}

    assert len(hashes(by_alice)) == 2
    assert hashes(by_alice) == hashes(by_bob) == hashes(by_node)
    assert len(tags(by_alice)) == len(tags(by_bob)) == 1  # one session, one tag at each end
    assert len(tags(by_node)) == 2  # one inbox, another tag each day
    assert len(tags(by_alice) | tags(by_bob) | tags(by_node)) == 4
    await alice.close()
    await bob.close()


@clause("13.1")
def test_a_link_of_another_writer_of_the_directory_is_not_followed(node: NodeFile, tmp_path: Path) -> None:
    """Names of drafts can be guessed: number of the process, and how many it has written."""
    note(node)
    depot, victim = tmp_path / "depot", tmp_path / "victim"
    [elsewhere, *_] = ship(node.journal, tmp_path / "elsewhere")
    depot.mkdir()
    victim.write_bytes(b"mine")
    for number in range(500):
        (depot / f".{elsewhere.name}.{os.getpid()}-{number}.partial").symlink_to(victim)
    DirectoryDepot(depot).put(elsewhere.name, b"segment")
    assert victim.read_bytes() == b"mine"
    assert (depot / elsewhere.name).read_bytes() == b"segment"
    assert not (depot / elsewhere.name).is_symlink()
