"""The dedup cache on disk: how much it holds, what it forgets first, and how many bytes that takes."""

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.core.deduplication import Fingerprint
from restante.core.inbox_events import InboxEventType
from restante.model.journal import JournalKind
from restante.model.states import Verdict
from restante.policy.dedup import DedupLimits
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.inbox.dedup_index import ENTRY_BYTES, DedupIndex
from support.inbox.decrypted_messages import ALICE, letter, receive
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, ClientFile, facts, open_client_file

DAY_MS = 86_400_000
SMALL = Settings(dedup=DedupLimits(max_entries=1_000, max_bytes=100_000))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[ClientFile]:
    file = open_client_file(tmp_path / "small.db", settings=SMALL)
    yield file
    file.database.close()


def key(number: int) -> bytes:
    return hashlib.sha256(number.to_bytes(8, "big")).digest()[:16]


def mark(number: int) -> Fingerprint:
    digest = hashlib.sha512(number.to_bytes(8, "big")).digest()
    return Fingerprint(digest[:8], digest[8:24], digest[24:32])


def pages_in_bytes(database: Database) -> int:
    """Every page of the table and its index, full or not."""
    [(size,)] = database.run("SELECT sum(pgsize) FROM dbstat WHERE name IN ('dedup', 'dedup_bucket')")
    return int(size)


@clause("9.2")
def test_a_hundred_thousand_entries_fit_ten_megabytes_of_pages_even_after_much_coming_and_going() -> None:
    with tempfile.TemporaryDirectory() as directory:
        database = Database(Path(directory) / "seen.db", schema="client")
        table = DedupIndex(database, DedupLimits())
        with database.transaction():
            for number in range(100_000):
                table.remember(number, key(number), mark(number), now_ms=NOW_MS)
        full = pages_in_bytes(database)
        with database.transaction():
            for number in range(100_000, 164_000):
                table.remember(number, key(number), mark(number), now_ms=NOW_MS)
                if (number - 100_000) % 64 == 63:
                    assert table.push_out(100_064, now_ms=NOW_MS).entries == 64
        [(held,)] = database.run("SELECT count(*) FROM dedup")
        used = pages_in_bytes(database)
        assert held == 100_000
        assert max(full, used) <= 10_000_000
        assert max(full, used) / held <= ENTRY_BYTES, "what the limit in bytes is reckoned with"
        assert min(full, used) / held > 0.75 * ENTRY_BYTES, "and that is not far too much"
        database.close()


@clause("9.2")
def test_both_limits_hold_at_the_default_together() -> None:
    assert DedupLimits().max_entries * ENTRY_BYTES <= DedupLimits().max_bytes


@clause("9.2")
def test_the_least_recently_seen_is_forgotten_first_and_that_shows(small: ClientFile) -> None:
    with small.inbox.batch(now_ms=NOW_MS) as batch:
        for number in range(1_000):
            batch.receive_decrypted(letter(number), server_timestamp_ms=NOW_MS)
    assert receive(small, letter(0), now_ms=NOW_MS + 1) is Verdict.DUPLICATE
    small.inbox.take_changes()
    receive(small, letter(1_000), now_ms=NOW_MS + 2)
    [forgotten] = [fact for fact in facts(small.journal) if fact.kind is JournalKind.DEDUP_EVICTED]
    assert (forgotten.code, forgotten.latency_ms) == ("dedup_full", 2)
    assert [(change.notice, change.how_many) for change in small.inbox.take_changes()] == [
        (InboxEventType.NEW_MESSAGE, 1),
        (InboxEventType.DEDUP_EVICTED, 1),
    ]
    assert receive(small, letter(0), now_ms=NOW_MS + 3) is Verdict.DUPLICATE, "it was seen again in between"
    assert receive(small, letter(1), now_ms=NOW_MS + 3) is Verdict.REPLAY, "forgotten, but its number was used"
    [(held,)] = small.database.run("SELECT count(*) FROM dedup")
    assert held == 1_000


@clause("9.2")
def test_an_arrival_is_remembered_for_thirty_days_from_when_it_was_last_seen(file: ClientFile) -> None:
    receive(file, letter(0))
    assert receive(file, letter(0), now_ms=NOW_MS + 30 * DAY_MS - 1) is Verdict.DUPLICATE
    assert receive(file, letter(0), now_ms=NOW_MS + 60 * DAY_MS - 2) is Verdict.DUPLICATE
    assert receive(file, letter(0), now_ms=NOW_MS + 90 * DAY_MS) is Verdict.REPLAY


@clause("9.2")
def test_what_is_past_its_window_is_swept_silently_and_the_rest_stays(file: ClientFile) -> None:
    for number in range(3):
        receive(file, letter(number), now_ms=NOW_MS + number)
    file.inbox.sweep(now_ms=NOW_MS + 30 * DAY_MS + 1)
    assert file.database.run("SELECT count(*) FROM dedup") == [(1,)]
    assert file.database.run("SELECT seen FROM inbox_total") == [(1,)]
    assert JournalKind.DEDUP_EVICTED not in {fact.kind for fact in facts(file.journal)}
    assert receive(file, letter(2), now_ms=NOW_MS + 30 * DAY_MS + 1) is Verdict.DUPLICATE
    assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS + 31 * DAY_MS)
