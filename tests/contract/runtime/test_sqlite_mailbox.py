"""The relay's store as a file: its schema and indexes, its facts, and what it keeps when power or room is gone."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from restante.core.mailbox import Usage
from restante.model.errors import StoreUnusable
from restante.model.journal import JournalKind
from restante.policy.quota import MailboxQuota
from restante.ports.mailbox_store import DamagedBlob
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.testing.crashing_disk import CrashingDisk
from restante.wire.envelope import hash_sealed_bytes
from support.relay.puts import ALICE, BOB, HOUR_MS, OVERHEAD_BYTES, QUOTA, everything, keep, put
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, facts, open_node_file


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Database]:
    file = open_node_file(tmp_path / "node.db")
    yield file.database
    file.database.close()


def test_the_store_is_in_wal_mode_with_full_sync(node: Database) -> None:
    assert node.run("PRAGMA journal_mode") == [("wal",)]
    assert node.run("PRAGMA synchronous") == [(2,)]  # FULL


@pytest.mark.parametrize("size", [0, 31, 33])
def test_the_schema_refuses_a_recipient_of_any_other_size_than_32(node: Database, size: int) -> None:
    with pytest.raises(apsw.ConstraintError, match=r"length\(recipient\)"):
        insert(node, recipient=bytes(size))
    assert node.run("SELECT count(*) FROM blob") == [(0,)]


def test_the_schema_is_strict(node: Database) -> None:
    assert node.run("SELECT strict FROM pragma_table_list WHERE name = 'blob'") == [(1,)]
    with pytest.raises(apsw.ConstraintError, match="cannot store TEXT value in BLOB column"):
        insert(node, recipient="A" * 32)


def insert(node: Database, *, recipient: bytes | str) -> None:
    node.run(
        "INSERT INTO blob (recipient, envelope, payload_hash, stored_at_ms, expires_at_ms)"
        " VALUES (:recipient, x'00', zeroblob(32), 0, 0)",
        recipient=recipient,
    )


def test_reading_in_order_walks_an_index(node: Database) -> None:
    values: dict[str, bytes | int] = {"recipient": ALICE, "after": 0, "now_ms": NOW_MS, "limit": 64}
    query = load_queries("mailbox/deferred_index")["page_sizes"]
    [(*_, only_step)] = node.run("EXPLAIN QUERY PLAN " + query, **values)  # no sorting besides
    assert only_step == "SEARCH blob_index USING PRIMARY KEY (recipient=? AND id>?)"


@clause("1.3", "6.1")
def test_a_put_that_returned_is_seen_by_another_connection(tmp_path: Path) -> None:
    file = open_node_file(tmp_path / "node.db")
    put(file.mailbox, ALICE, b"one")
    other = apsw.Connection(str(tmp_path / "node.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert other.execute("SELECT recipient, envelope FROM blob").fetchall() == [(ALICE, keep(ALICE, b"one").envelope)]
    other.close()
    file.database.close()


@clause("1.4", "13.1")
def test_each_change_of_the_store_is_a_fact_that_names_the_sealed_bytes_alone(tmp_path: Path) -> None:
    file = open_node_file(tmp_path / "node.db")
    kept = put(file.mailbox, ALICE, b"kept", expires_at_ms=NOW_MS + HOUR_MS)
    put(file.mailbox, ALICE, b"outlived", expires_at_ms=NOW_MS + 1)
    file.mailbox.delete_all(ALICE, [kept], now_ms=NOW_MS)
    file.mailbox.delete_all(BOB, [kept], now_ms=NOW_MS)
    file.mailbox.reap(now_ms=NOW_MS + 1)
    told = facts(file.journal)
    assert [(fact.kind, fact.payload_hash) for fact in told] == [
        (JournalKind.STORED, hash_sealed_bytes(b"kept")),
        (JournalKind.STORED, hash_sealed_bytes(b"outlived")),
        (JournalKind.SERVED, hash_sealed_bytes(b"kept")),
        (JournalKind.DELETED, hash_sealed_bytes(b"kept")),
        (JournalKind.REAPED, hash_sealed_bytes(b"outlived")),
    ]
    assert all(fact.message_id is None and fact.message_kind is None for fact in told)
    file.database.close()


@clause("6.3")
@pytest.mark.parametrize("byte", [5, -1], ids=["inbox key", "sealed bytes"])
def test_a_damaged_blob_is_never_served_and_is_reported_once(tmp_path: Path, byte: int) -> None:
    file = open_node_file(tmp_path / "node.db")
    put(file.mailbox, ALICE, b"before")
    rotten = put(file.mailbox, ALICE, b"rotten")
    put(file.mailbox, ALICE, b"after")
    envelope = bytearray(keep(ALICE, b"rotten").envelope)
    envelope[byte] ^= 1
    file.database.run("UPDATE blob SET envelope = :envelope WHERE id = :id", envelope=bytes(envelope), id=rotten)
    page = file.mailbox.flush(ALICE, after=0, limit=9, max_bytes=10_000, now_ms=NOW_MS)
    assert page.damaged == [DamagedBlob(rotten, hash_sealed_bytes(b"rotten"))]
    assert [blob.envelope for blob in page.blobs] == [keep(ALICE, text).envelope for text in (b"before", b"after")]
    file.mailbox.journal_damaged(page.damaged, now_ms=NOW_MS)
    assert [blob.envelope for blob in everything(file.mailbox, ALICE)] == [b"before", b"after"]
    damaged = [fact for fact in facts(file.journal) if fact.kind is JournalKind.DAMAGED]
    assert [fact.payload_hash for fact in damaged] == [hash_sealed_bytes(b"rotten")]
    assert file.mailbox.delete_all(ALICE, [rotten], now_ms=NOW_MS) == 1
    file.database.close()


def test_a_blob_put_past_its_expiry_does_not_spoil_the_journal(tmp_path: Path) -> None:
    """A fact that cannot be read back would keep every later one from being shipped."""
    file = open_node_file(tmp_path / "node.db")
    put(file.mailbox, ALICE, b"late", expires_at_ms=NOW_MS - HOUR_MS)
    assert [fact.ttl_s for fact in facts(file.journal)] == [0]
    file.database.close()


def test_reaping_finds_what_has_expired_by_an_index(node: Database) -> None:
    plan = node.run("EXPLAIN QUERY PLAN " + load_queries("mailbox/store")["reap"], now_ms=NOW_MS, limit=10)
    assert any("INDEX blob_index_by_expiry (expires_at_ms<?)" in step for *_, step in plan)


@clause("1.3", "6.2")
def test_power_lost_at_any_write_or_sync_keeps_every_put_that_returned_and_balanced_usage(tmp_path: Path) -> None:
    counting = CrashingDisk()
    with counting.plugged_in():
        puts_until_crash(tmp_path / "whole.db", [])
    for fails_at in range(1, counting.operations + 1):
        path = tmp_path / f"{fails_at}.db"
        acknowledged: list[bytes] = []
        disk = CrashingDisk(fails_at=fails_at, seed=fails_at)
        with disk.plugged_in(), contextlib.suppress(StoreUnusable):
            puts_until_crash(path, acknowledged)
        disk.lose_unsynced()
        file = open_node_file(path)
        held = [blob.envelope for blob in everything(file.mailbox, ALICE)]
        assert held[: len(acknowledged)] == acknowledged, fails_at
        assert file.mailbox.usage(ALICE) == Usage(
            blobs=len(held), total_bytes=sum(map(len, held)) + len(held) * OVERHEAD_BYTES
        )
        stored = [fact.payload_hash for fact in facts(file.journal) if fact.kind is JournalKind.STORED]
        assert stored == [hash_sealed_bytes(envelope) for envelope in held]
        file.mailbox.close()
        file.database.close()


def puts_until_crash(path: Path, acknowledged: list[bytes]) -> None:
    """Four commits of three puts; what a commit that returned has stored is noted."""
    file = open_node_file(path)
    for commit in range(4):
        envelopes = [b"%d-%d" % (commit, number) for number in range(3)]
        file.mailbox.put_all([keep(ALICE, envelope) for envelope in envelopes], quota=QUOTA, now_ms=NOW_MS)
        acknowledged += envelopes
    file.mailbox.close()
    file.database.close()


@clause("6.2")
def test_a_full_disk_refuses_what_it_cannot_hold_and_loses_nothing(tmp_path: Path) -> None:
    file = open_node_file(tmp_path / "node.db")
    put(file.mailbox, ALICE, b"before")
    [(pages,)] = file.database.run("PRAGMA page_count")
    file.database.run(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StoreUnusable, match="full"):
        file.mailbox.put_all([keep(ALICE, bytes(100_000))], quota=QUOTA, now_ms=NOW_MS)
    assert [blob.envelope for blob in everything(file.mailbox, ALICE)] == [b"before"]
    assert file.mailbox.usage(ALICE) == Usage(blobs=1, total_bytes=6 + 1 * OVERHEAD_BYTES)
    file.database.run(f"PRAGMA max_page_count = {pages + 1_000}")
    put(file.mailbox, ALICE, bytes(100_000))
    file.database.close()


@clause("6.6")
def test_what_was_undone_does_not_count_for_a_quota(tmp_path: Path) -> None:
    quota = MailboxQuota(max_blobs=100)
    file = open_node_file(tmp_path / "node.db")
    store = file.mailbox
    store.put_all([keep(ALICE, b"%d" % number) for number in range(99)], quota=quota, now_ms=NOW_MS)
    gone = everything(store, ALICE)[0].blob_id
    with contextlib.suppress(ZeroDivisionError), file.database.transaction():
        store.delete_all(ALICE, [gone], now_ms=NOW_MS)
        full = store.put_all([keep(ALICE, b"undone %d" % number) for number in range(3)], quota=quota, now_ms=NOW_MS)
        assert [isinstance(answer, int) for answer in full] == [True, True, False]
        raise ZeroDivisionError
    assert store.usage(ALICE).blobs == 99
    answers = store.put_all([keep(ALICE, b"kept"), keep(ALICE, b"too many")], quota=quota, now_ms=NOW_MS)
    assert [isinstance(answer, int) for answer in answers] == [True, False]
    assert store.usage(ALICE) == Usage(
        blobs=100, total_bytes=sum(len(blob.envelope) + OVERHEAD_BYTES for blob in everything(store, ALICE))
    )
    file.database.close()
