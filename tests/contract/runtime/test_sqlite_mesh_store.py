"""A node's mesh store against a model: idempotent, bounded, journaled, and never serving what is damaged or expired."""

from collections.abc import Iterator
from functools import partial, reduce
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.core.mailbox import Keep
from restante.crypto.blinded_keys import BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.model.journal import JournalKind
from restante.model.sources import UNKNOWN_SOURCE, Source
from restante.policy.mesh.time_buckets import bucket_at, hashes_kept_until_ms
from restante.policy.quota import MailboxQuota, Refusal
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.sqlite.mesh.records import SqliteMeshRecords
from restante.runtime.sqlite.mesh.source_limits import Room
from restante.runtime.sqlite.mesh.store import TOMBSTONE_BYTES, MeshKeep, SqliteMeshStore
from restante.testing.deterministic import SeededEntropy
from restante.wire.envelope import Envelope, encode_envelope, hash_sealed_bytes
from restante.wire.mesh_keys import mesh_inbox_key
from support.spec.clauses import clause

HOUR_MS = 3_600_000
NOW_MS = 500_000 * HOUR_MS
BUCKET = bucket_at(NOW_MS)
OWNER = Identity(b"o" * 32)
QUOTA = MailboxQuota()
HERE, THERE = Source(b"\x7f\x00\x01"), Source(b"\x7f\x00\x02")


class Files:
    def __init__(self, path: Path) -> None:
        self.database = Database(path, schema="node")
        self.journal = Journal(self.database, SeededEntropy(1))
        self.mailbox = SqliteMailbox(self.database, self.journal, tag_secret=b"t" * 32)
        self.store = SqliteMeshStore(
            self.database,
            self.journal,
            tag_secret=b"t" * 32,
            sources=self.mailbox.sources,
            elsewhere_bytes=self.mailbox.total_bytes,
        )
        self.mailbox.share_total(self.store.total_bytes)
        self.records = SqliteMeshRecords(self.database, self.journal, self.store)

    def kinds(self) -> list[JournalKind]:
        return [each.kind for each in self.journal.events(after=0, limit=10_000)]

    def close(self) -> None:
        self.store.close()
        self.mailbox.close()
        self.database.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    opened = Files(tmp_path / "node.db")
    yield opened
    opened.close()


def put(
    sealed: bytes, *, bucket: int = BUCKET, hours: int = 48, source: Source = UNKNOWN_SOURCE, owner: Identity = OWNER
) -> MeshKeep:
    blinded = BlindedSigner(owner, place=in_period(bucket)).public_key
    key = mesh_inbox_key(blinded, bucket)
    expires_at_ms = NOW_MS + hours * HOUR_MS
    raw = encode_envelope(Envelope(inbox_key=key, expires_at_ms=expires_at_ms, sealed=sealed))
    return MeshKeep(blinded, bucket, Keep(key, hash_sealed_bytes(sealed), expires_at_ms, raw, source))


KEY = put(b"x").keep.inbox_key


def listed(store: SqliteMeshStore, key: InboxKey = KEY, *, now_ms: int = NOW_MS) -> list[PayloadHash]:
    return [each.payload_hash for each in store.listed(key, after=0, now_ms=now_ms)]


def delete(store: SqliteMeshStore, *bodies: bytes) -> list[PayloadHash]:
    first = put(bodies[0])
    return store.delete(first.blinded, BUCKET, KEY, map(hash_sealed_bytes, bodies), quota=QUOTA, now_ms=NOW_MS)


@clause("7.9", "1.4")
def test_a_blob_is_stored_once_and_a_deleted_one_never_again(files: Files) -> None:
    store = files.store
    assert store.put_all([put(b"a"), put(b"a"), put(b"b")], quota=QUOTA, now_ms=NOW_MS) == [None] * 3
    assert listed(store) == [hash_sealed_bytes(b"a"), hash_sealed_bytes(b"b")]
    assert delete(store, b"a", b"unknown") == [hash_sealed_bytes(b"a")]
    assert store.put_all([put(b"a"), put(b"unknown")], quota=QUOTA, now_ms=NOW_MS) == [None, None]
    assert listed(store) == [hash_sealed_bytes(b"b")]
    assert files.kinds() == [JournalKind.STORED, JournalKind.STORED, JournalKind.SERVED, JournalKind.DELETED]


@clause("13.1")
def test_a_repaired_copy_names_the_neighbour_and_no_event_names_a_key(files: Files) -> None:
    files.store.put_all([put(b"a")], quota=QUOTA, now_ms=NOW_MS, repaired_from=NodeId(b"n" * 32))
    [event] = files.journal.events(after=0, limit=10)
    assert (event.kind, event.code, event.node) == (JournalKind.STORED, "repaired", NodeId(b"n" * 32))
    assert bytes(KEY) not in {bytes(event.session_tag or b""), bytes(event.payload_hash or b"")}


def test_the_later_expiry_of_equal_bytes_counts(files: Files) -> None:
    files.store.put_all([put(b"a", hours=2), put(b"a", hours=9), put(b"a", hours=3)], quota=QUOTA, now_ms=NOW_MS)
    assert listed(files.store, now_ms=NOW_MS + 8 * HOUR_MS) == [hash_sealed_bytes(b"a")]
    assert listed(files.store, now_ms=NOW_MS + 9 * HOUR_MS) == []
    [block] = files.store.read(KEY, [hash_sealed_bytes(b"a")], now_ms=NOW_MS).blocks
    assert block.envelope == put(b"a", hours=9).keep.envelope


@clause("6.3")
def test_a_damaged_blob_is_never_sent_and_leaves_so_that_a_neighbour_can_bring_it_again(files: Files) -> None:
    store = files.store
    store.put_all([put(b"good"), put(b"rotten")], quota=QUOTA, now_ms=NOW_MS)
    files.database.run(
        "UPDATE mesh_blob SET envelope = :raw WHERE payload_hash = :hash",
        raw=put(b"r0tten").keep.envelope,
        hash=hash_sealed_bytes(b"rotten"),
    )
    hashes = [hash_sealed_bytes(each) for each in (b"rotten", b"good")]
    found = store.read(KEY, hashes, now_ms=NOW_MS)
    assert [block.envelope for block in found.blocks] == [put(b"good").keep.envelope]
    scrubbed, _ = store.scrub(0, limit=10)
    assert scrubbed == found.damaged
    assert store.remove_damaged(found.damaged, now_ms=NOW_MS) == 1
    assert store.remove_damaged(found.damaged, now_ms=NOW_MS) == 0
    assert files.kinds()[2:] == [JournalKind.DAMAGED]
    assert store.known_hashes(KEY) == {hash_sealed_bytes(b"good")}
    store.put_all([put(b"rotten")], quota=QUOTA, now_ms=NOW_MS, repaired_from=NodeId(b"n" * 32))
    assert len(store.read(KEY, hashes, now_ms=NOW_MS).blocks) == 2


@clause("6.6")
def test_a_full_inbox_refuses_for_now_and_what_is_there_stays(files: Files) -> None:
    quota = MailboxQuota(max_blobs=100)
    puts = [put(bytes([number])) for number in range(101)]
    answers = files.store.put_all(puts, quota=quota, now_ms=NOW_MS)
    assert answers[:100] == [None] * 100
    assert isinstance(answers[100], Refusal)
    assert (answers[100].permanent, answers[100].code) == (False, Code.STORAGE_FAILED)
    assert len(listed(files.store)) == 100


@clause("6.6")
def test_one_source_gets_a_quarter_of_an_inbox_that_is_half_full_and_replicas_count_for_no_source(files: Files) -> None:
    quota = MailboxQuota(max_blobs=100)
    puts = [put(b"here %d" % number, source=HERE) for number in range(60)]
    answers = files.store.put_all(puts, quota=quota, now_ms=NOW_MS)
    assert [each is None for each in answers] == [True] * 51 + [False] * 9  # once more than half is used
    other = files.store.put_all([put(b"there", source=THERE)], quota=quota, now_ms=NOW_MS)
    replicas = files.store.put_all(
        [put(b"replica %d" % n) for n in range(40)], quota=quota, now_ms=NOW_MS, repaired_from=NodeId(b"n" * 32)
    )
    assert other == [None]
    assert replicas == [None] * 40


@clause("6.6")
def test_a_source_is_told_what_it_may_still_store_once_half_is_used(files: Files) -> None:
    quota = MailboxQuota(max_blobs=100, total_bytes=1_000_000)
    rooms = []
    for number in range(54):
        each = put(b"here %02d" % number, source=HERE if number < 20 else THERE)
        files.store.put_all([each], quota=quota, now_ms=NOW_MS)
        rooms.append(files.store.room(each, quota=quota))
    size = len(put(b"here 00").keep.envelope)
    assert rooms[:50] == [Room(None, None)] * 50
    assert rooms[50:] == [Room(None, 0)] * 4  # of 25 blobs this source has 31
    late = put(b"here 99", source=HERE)
    assert files.store.room(late, quota=quota) == Room(None, 5 * size)
    big = put(bytes(250_000), owner=Identity(b"p" * 32))
    files.store.put_all([big, put(bytes(250_001), owner=Identity(b"q" * 32))], quota=quota, now_ms=NOW_MS)
    assert files.store.room(late, quota=quota) == Room(100_000 - 20 * size, 5 * size)


@clause("6.6")
def test_mailboxes_mesh_records_and_tombstones_share_one_total(files: Files) -> None:
    quota = MailboxQuota(total_bytes=1_000_000)
    big = put(bytes(250_000))
    relayed = Keep(InboxKey(b"r" * 32), *put(bytes(249_000)).keep[1:])
    assert files.store.put_all([big], quota=quota, now_ms=NOW_MS) == [None]
    assert all(isinstance(each, int) for each in files.mailbox.put_all([relayed] * 2, quota=quota, now_ms=NOW_MS))
    assert isinstance(files.mailbox.put_all([relayed] * 2, quota=quota, now_ms=NOW_MS)[1], Refusal)
    assert isinstance(files.store.put_all([put(bytes(200_001))], quota=quota, now_ms=NOW_MS)[0], Refusal)
    before = files.store.total_bytes()
    delete(files.store, b"1", b"2")
    assert files.store.total_bytes() == before + 128
    for number in range(2):
        record, key = bytes([number]) * 5_000, bytes([number]) * 32
        expires = NOW_MS + HOUR_MS
        files.records.put(key, record, expires_at_ms=expires, quota=QUOTA, now_ms=NOW_MS)
        assert files.records.put(key, record, expires_at_ms=expires, quota=QUOTA, now_ms=NOW_MS) is None
    assert files.store.total_bytes() == before + 128 + 10_000
    assert files.records.collect_garbage(now_ms=NOW_MS + HOUR_MS, quota=QUOTA) == 2
    assert files.store.total_bytes() == before + 128


def put_records(files: Files, owner: bytes, numbers: range, source: Source, *, expires_at_ms: int = NOW_MS + 1) -> int:
    """Put records of 8,000 bytes; return how many were taken."""
    quota = MailboxQuota(total_bytes=10_000_000)  # 1,000,000 for records
    keys = [owner + number.to_bytes(31, "big") for number in numbers]
    put_one = partial(files.records.put, expires_at_ms=expires_at_ms, quota=quota, now_ms=NOW_MS, source=source)
    return sum(put_one(key, bytes(8_000)) is None for key in keys)


@clause("6.6", "7.6")
def test_one_source_gets_a_tenth_of_the_space_of_records_once_half_of_it_is_used(files: Files) -> None:
    assert put_records(files, b"h", range(200), HERE) == 63  # half, and the one that goes beyond it
    assert put_records(files, b"h", range(63), HERE) == 63  # renewing takes no space
    assert put_records(files, b"t", range(200), THERE) == 12
    assert put_records(files, b"n", range(20), UNKNOWN_SOURCE) == 20  # of a neighbour
    assert put_records(files, b"t", range(1), THERE, expires_at_ms=NOW_MS + 2) == 0  # of another period


@clause("6.6", "7.6")
def test_what_a_source_put_of_records_is_forgotten_with_their_period_and_with_a_transaction(files: Files) -> None:
    put_records(files, b"f", range(62), UNKNOWN_SOURCE, expires_at_ms=NOW_MS + 2)
    put_records(files, b"f", range(62, 63), UNKNOWN_SOURCE, expires_at_ms=NOW_MS + 2)
    files.database.begin()
    assert put_records(files, b"h", range(20), HERE) == 12
    files.database.roll_back()
    assert put_records(files, b"h", range(20), HERE) == 12
    assert files.records.collect_garbage(now_ms=NOW_MS + 1, quota=QUOTA) == 12
    assert put_records(files, b"h", range(20), HERE, expires_at_ms=NOW_MS + 2) == 12


@clause("7.7", "7.4")
def test_garbage_goes_when_it_expires_and_tombstones_an_hour_after_30_days(files: Files) -> None:
    store = files.store
    store.put_all([put(b"short", hours=2), put(b"long", hours=24 * 30), put(b"read")], quota=QUOTA, now_ms=NOW_MS)
    delete(store, b"read")
    assert store.collect_garbage(now_ms=NOW_MS + 2 * HOUR_MS, limit=100) == 1
    assert listed(store) == [hash_sealed_bytes(b"long")]
    end_ms = hashes_kept_until_ms(BUCKET)
    assert store.collect_garbage(now_ms=end_ms - 1, limit=100) == 1
    assert store.known_hashes(KEY) == {hash_sealed_bytes(b"read")}
    store.collect_garbage(now_ms=end_ms + HOUR_MS, limit=100)
    assert not store.holds(KEY)
    assert store.total_bytes() == 0


@clause("7.4")
def test_a_key_keeps_at_most_ten_thousand_tombstones(files: Files) -> None:
    first = put(b"x")
    for start in range(0, 10_500, 500):
        hashes = [hash_sealed_bytes(b"%d" % number) for number in range(start, start + 500)]
        files.store.delete(first.blinded, BUCKET, KEY, hashes, quota=QUOTA, now_ms=NOW_MS)
    assert len(files.store.known_hashes(KEY)) == 10_000


@clause("7.4", "6.6")
def test_hashes_that_never_were_stored_take_at_most_half_of_the_total(files: Files) -> None:
    """Anybody can sign a DELETE for a key of its own."""
    store, quota = files.store, MailboxQuota(total_bytes=1_000_000)
    for number in range(20):
        stranger = put(b"x", owner=Identity(bytes([number + 1]) * 32))
        hashes = [hash_sealed_bytes(b"%d" % each) for each in range(1_000)]
        store.delete(stranger.blinded, BUCKET, stranger.keep.inbox_key, hashes, quota=quota, now_ms=NOW_MS)
    assert store.total_bytes() <= quota.total_bytes // 2 + TOMBSTONE_BYTES
    assert store.put_all([put(b"mail")], quota=quota, now_ms=NOW_MS) == [None]
    assert store.delete(put(b"x").blinded, BUCKET, KEY, [hash_sealed_bytes(b"mail")], quota=quota, now_ms=NOW_MS)
    assert hash_sealed_bytes(b"mail") in store.known_hashes(KEY)


BODIES = [bytes([letter]) for letter in b"abcdef"]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(BODIES), st.integers(1, 5)),
        st.tuples(st.just("delete"), st.sampled_from(BODIES), st.just(0)),
        st.tuples(st.just("collect"), st.just(b""), st.integers(1, 5)),
        st.tuples(st.just("fail"), st.sampled_from(BODIES), st.just(0)),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=40)
@given(steps)
def test_lists_and_summaries_are_those_of_a_set(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bytes, int]]
) -> None:
    files = Files(tmp_path_factory.mktemp("mesh") / "node.db")
    live: dict[PayloadHash, int] = {}
    dead: set[PayloadHash] = set()
    for step, body, hours in steps:
        hashed = hash_sealed_bytes(body)
        if step == "put":
            files.store.put_all([put(body, hours=hours)], quota=QUOTA, now_ms=NOW_MS)
            if hashed not in dead:
                live[hashed] = max(hours, live.get(hashed, 0))
        elif step == "delete":
            delete(files.store, body)
            live.pop(hashed, None)
            dead.add(hashed)
        elif step == "fail":
            files.database.begin()
            delete(files.store, body)
            files.database.roll_back()
        else:
            files.store.collect_garbage(now_ms=NOW_MS + hours * HOUR_MS, limit=100)
            live = {each: until for each, until in live.items() if until > hours}
        assert set(listed(files.store)) == set(live)
        known = set(live) | dead
        summaries = files.store.summaries(bytes(32), b"\xff" * 32, limit=10)
        if known:
            [summary] = summaries
            xor = reduce(lambda one, other: one ^ other, (int.from_bytes(each, "big") for each in known))
            assert (summary.count, int.from_bytes(summary.xor, "big")) == (len(known), xor)
        else:
            assert summaries == []
    files.close()
