"""Blobs that are filed late are found, counted and reaped as if they had been filed at once."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from restante.core.mailbox import Usage
from restante.model.ids import InboxKey
from restante.policy.quota import MailboxQuota
from restante.runtime.sqlite.mailbox import deferred_index
from restante.runtime.sqlite.mailbox.queries import read_holdings
from support.relay.puts import OVERHEAD_BYTES, flush, keep
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, NodeFile, open_node_file

ALICE = InboxKey(b"A" * 32)
BOB = InboxKey(b"B" * 32)
HOUR_MS = 3_600_000
QUOTA = MailboxQuota()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeFile]:
    monkeypatch.setattr(deferred_index, "FLUSH_AT", 4)
    made = open_node_file(tmp_path / "node.db")
    yield made
    made.database.close()


def put(file: NodeFile, *texts: bytes, inbox: InboxKey = ALICE, expires_at_ms: int = NOW_MS + HOUR_MS) -> list[int]:
    keeps = [keep(inbox, text, expires_at_ms=expires_at_ms) for text in texts]
    ids = file.mailbox.put_all(keeps, quota=QUOTA, now_ms=NOW_MS)
    return [blob_id for blob_id in ids if isinstance(blob_id, int)]


def served(file: NodeFile, inbox: InboxKey = ALICE, *, after: int = 0, limit: int = 100) -> list[bytes]:
    blobs = flush(file.mailbox, inbox, after=after, limit=limit, max_bytes=10_000, now_ms=NOW_MS)
    return [blob.envelope for blob in blobs]


def filed(file: NodeFile) -> int:
    [(count,)] = file.database.run("SELECT count(*) FROM blob_index")
    return int(count)


def test_puts_are_filed_together_once_there_are_enough(file: NodeFile) -> None:
    counts = []
    for text in (b"1", b"2", b"3", b"4", b"5"):
        put(file, text)
        counts.append(filed(file))
    assert counts == [0, 0, 0, 4, 4]


@clause("6.4")
def test_a_page_goes_on_from_what_is_filed_to_what_is_not(file: NodeFile) -> None:
    ids = put(file, b"1", b"2", b"3", b"4")
    ids += put(file, b"5")
    put(file, b"6")
    assert served(file) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert served(file, limit=5) == [b"1", b"2", b"3", b"4", b"5"]
    assert served(file, after=ids[4]) == [b"6"]


def test_after_a_crash_the_blobs_tell_what_was_not_filed(file: NodeFile, tmp_path: Path) -> None:
    put(file, b"1", b"2", b"3", b"4")
    put(file, b"five")
    again = open_node_file(tmp_path / "node.db")  # the first was never closed
    assert served(again) == [b"1", b"2", b"3", b"4", b"five"]
    assert again.mailbox.usage(ALICE) == Usage(blobs=5, total_bytes=8 + 5 * OVERHEAD_BYTES)
    put(again, b"6", b"7", b"8")
    assert filed(again) == 8
    assert again.mailbox.usage(ALICE) == Usage(blobs=8, total_bytes=11 + 8 * OVERHEAD_BYTES)
    again.database.close()


@clause("6.6")
def test_a_quota_counts_what_is_not_filed_yet(file: NodeFile, tmp_path: Path) -> None:
    put(file, b"1", b"2", b"3")
    again = open_node_file(tmp_path / "node.db")
    keeps = [keep(ALICE, b"%d" % number, expires_at_ms=NOW_MS + HOUR_MS) for number in range(98)]
    answers = again.mailbox.put_all(keeps, quota=MailboxQuota(max_blobs=100), now_ms=NOW_MS)
    assert [isinstance(answer, int) for answer in answers] == [True] * 97 + [False]
    again.database.close()


@clause("6.1")
def test_what_is_not_filed_yet_is_deleted_and_reaped(file: NodeFile) -> None:
    [mine] = put(file, b"mine")
    put(file, b"brief", expires_at_ms=NOW_MS)
    assert file.mailbox.delete_all(BOB, [mine], now_ms=NOW_MS) == 0
    assert file.mailbox.delete_all(ALICE, [mine], now_ms=NOW_MS) == 1
    put(file, b"briefer", expires_at_ms=NOW_MS - 1)
    assert file.mailbox.reap(now_ms=NOW_MS) == 2
    assert filed(file) == 0
    assert file.mailbox.usage(ALICE) == Usage(blobs=0, total_bytes=0)


def test_puts_beside_a_delete_in_one_commit_are_counted_once(file: NodeFile, tmp_path: Path) -> None:
    [first] = put(file, b"first")
    with file.database.transaction():
        file.mailbox.delete_all(ALICE, [first], now_ms=NOW_MS)
        put(file, b"second")
    again = open_node_file(tmp_path / "node.db")
    assert again.mailbox.usage(ALICE) == Usage(blobs=1, total_bytes=6 + 1 * OVERHEAD_BYTES)
    again.database.close()


@clause("6.4")
def test_what_a_commit_under_way_files_is_served_all_the_while(file: NodeFile) -> None:
    put(file, b"1", b"2")
    file.database.begin()
    put(file, b"3", b"4")
    file.database.write_deferred()
    assert served(file) == [b"1", b"2"]  # of the others nobody may know before they are on disk
    file.database.commit()
    assert served(file) == [b"1", b"2", b"3", b"4"]


@clause("6.4")
def test_a_commit_between_two_looks_of_one_flush_hides_none_of_its_blobs(file: NodeFile) -> None:
    """The disk is waited for in a thread, so that a commit may end while a page is read."""
    put(file, b"1")
    file.database.begin()
    put(file, b"2", b"3", b"4", b"5")
    file.database.write_deferred()
    looks = 0

    def commit_at_the_third_look(_cursor: apsw.Cursor, statement: str, _values: object) -> bool:
        nonlocal looks
        looks += statement.startswith("SELECT id, size_bytes")
        if looks == 3 and file.database.in_transaction:
            file.database.commit()
        return True

    file.mailbox._reader._connection.exec_trace = commit_at_the_third_look
    shown: list[bytes] = []
    after = 0
    for _ in range(6):
        blobs = flush(file.mailbox, ALICE, after=after, limit=1, max_bytes=10_000, now_ms=NOW_MS)
        shown += [blob.envelope for blob in blobs]
        after = blobs[-1].blob_id if blobs else after
    assert shown == [b"1", b"2", b"3", b"4", b"5"]


def test_a_page_of_blobs_that_are_gone_does_not_hide_the_next(file: NodeFile) -> None:
    put(file, b"1", b"2")
    file.database.run("DELETE FROM blob")  # behind its back
    put(file, b"3")
    assert served(file, limit=1) == [b"3"]


def test_index_entries_of_a_rolled_back_transaction_are_written_again(file: NodeFile) -> None:
    put(file, b"1", b"2")
    file.database.begin()
    put(file, b"3", b"4")
    file.database.write_deferred()
    file.database.roll_back()
    assert filed(file) == 0
    assert served(file) == [b"1", b"2"]
    put(file, b"5", b"6")
    assert filed(file) == 4
    assert served(file) == [b"1", b"2", b"5", b"6"]


def test_an_operators_sums_include_what_is_not_filed_yet(file: NodeFile) -> None:
    put(file, b"1", b"2", b"3", b"4")
    put(file, b"bob", inbox=BOB, expires_at_ms=NOW_MS)
    put(file, b"five")
    held = read_holdings(file.database, shipped_through=0, now_ms=NOW_MS)
    assert (held.blobs, held.total_bytes, held.mailboxes, held.expired) == (6, 11 + 6 * OVERHEAD_BYTES, 2, 1)
    assert held.next_expiry_at_ms == NOW_MS
