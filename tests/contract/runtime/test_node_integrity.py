"""The checks of a node's file: a sound file has no findings, and each damage is found by the check it concerns."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.core.mailbox import Keep
from restante.crypto.blinded_keys import BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey
from restante.policy.mesh.time_buckets import bucket_at
from restante.policy.quota import MailboxQuota
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.file.node_integrity import BLOBS_AT_ONCE, check_node_file
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.sqlite.mesh.records import SqliteMeshRecords
from restante.runtime.sqlite.mesh.store import MeshKeep, SqliteMeshStore
from restante.testing.deterministic import SeededEntropy
from restante.wire.envelope import Envelope, encode_envelope, hash_sealed_bytes
from restante.wire.mesh_keys import mesh_inbox_key
from support.spec.clauses import clause

NOW_MS = 500_000 * 3_600_000
BUCKET = bucket_at(NOW_MS)
BLINDED = BlindedSigner(Identity(b"o" * 32), place=in_period(BUCKET)).public_key
QUOTA = MailboxQuota()


def keep(key: InboxKey, sealed: bytes) -> Keep:
    expires_at_ms = NOW_MS + 3_600_000
    raw = encode_envelope(Envelope(inbox_key=key, expires_at_ms=expires_at_ms, sealed=sealed))
    return Keep(key, hash_sealed_bytes(sealed), expires_at_ms, raw)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A node's file with mail of a mailbox and of the mesh, some of it deleted, and a record."""
    file = Database(tmp_path / "node.db", schema="node")
    journal = Journal(file, SeededEntropy(1))
    mailbox = SqliteMailbox(file, journal, tag_secret=b"t" * 32)
    mesh = SqliteMeshStore(file, journal, tag_secret=b"t" * 32, sources=mailbox.sources)
    records = SqliteMeshRecords(file, journal, mesh)
    of_mailbox, of_mesh = InboxKey(b"m" * 32), mesh_inbox_key(BLINDED, BUCKET)
    mail = [keep(of_mailbox, b"%d" % number) for number in range(3)]
    first = mailbox.put_all(mail, quota=QUOTA, now_ms=NOW_MS, may_reap=False)[0]
    assert isinstance(first, int)
    mailbox.reap(now_ms=NOW_MS)  # writes the deferred index
    mailbox.delete_all(of_mailbox, [first], now_ms=NOW_MS)
    puts = [MeshKeep(BLINDED, BUCKET, keep(of_mesh, b"%d" % number)) for number in range(BLOBS_AT_ONCE + 2)]
    assert not any(mesh.put_all(puts, quota=QUOTA, now_ms=NOW_MS))
    mesh.delete(BLINDED, BUCKET, of_mesh, [puts[0].keep.payload_hash], quota=QUOTA, now_ms=NOW_MS)
    assert records.put(b"r" * 32, b"a record", expires_at_ms=NOW_MS, quota=QUOTA, now_ms=NOW_MS) is None
    mesh.close()
    mailbox.close()
    yield file
    file.close()


def findings(database: Database) -> dict[str, list[str]]:
    return {check.name: list(check.findings) for check in check_node_file(database) if check.findings}


def test_a_sound_file_has_no_findings(database: Database) -> None:
    assert findings(database) == {}


@clause("6.3")
@pytest.mark.parametrize("table", ["blob", "mesh_blob"])
def test_a_blob_that_differs_from_its_hash_is_named(database: Database, table: str) -> None:
    newest = f"(SELECT max(id) FROM {table})"  # noqa: S608 - of this test
    [(number,)] = database.run(f"SELECT {newest}")
    database.run(f"UPDATE {table} SET envelope = zeroblob(length(envelope)) WHERE id = {newest}")  # noqa: S608 - as above
    where = "a mailbox" if table == "blob" else "the mesh"
    sentence = f"blob {number} of {where} differs from its hash: it is not served"
    assert findings(database) == {"each blob has its hash": [sentence]}


@pytest.mark.parametrize(
    ("change", "check", "finding"),
    [
        (
            "UPDATE mesh_record SET record = x'00'",
            "each blob has its hash",
            "a prekey record differs from its hash",
        ),
        (
            "UPDATE mesh_key SET blobs = blobs + 1",
            "totals equal a recount",
            "a key of the mesh counts 258 blobs",
        ),
        (
            "DELETE FROM mesh_tombstone",
            "totals equal a recount",
            "and 1 deleted ones, but there are",
        ),
        (
            "UPDATE usage SET bytes = bytes + 1",
            "totals equal a recount",
            "a mailbox counts 2 blobs",
        ),
        (
            "DELETE FROM usage",
            "totals equal a recount",
            "a mailbox counts 0 blobs and 0 bytes, but there are 2 blobs",
        ),
        (
            "DELETE FROM journal WHERE number = 2",
            "the journal's numbers have no gaps",
            "journal event 2 is missing",
        ),
    ],
)
def test_each_kind_of_damage_is_found(database: Database, change: str, check: str, finding: str) -> None:
    database.run(change)
    found = findings(database)
    assert list(found) == [check]
    assert finding in found[check][0]


def test_a_mailbox_that_lists_a_blob_without_it_and_a_blob_without_mailbox_are_found(database: Database) -> None:
    [(first,), _] = database.run("SELECT id FROM blob ORDER BY id")
    database.run("UPDATE blob_index SET id = 99999 WHERE id = :id", id=first)
    assert findings(database) == {
        "totals equal a recount": [
            f"blob {first} is in no mailbox",
            "a mailbox lists blob 99999, which is not there",
        ]
    }
