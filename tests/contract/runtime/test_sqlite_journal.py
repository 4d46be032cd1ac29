"""The journal table: facts numbered without holes, and the small values kept beside it."""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.model.ids import NodeId, PayloadHash, SessionTag, event_number
from restante.model.journal import JournalEvent, JournalKind
from restante.model.kinds import Kind, Priority
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import BlobEvent, Journal
from restante.testing.deterministic import SeededEntropy
from support.fleet.journal_files import message
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, facts


class Interrupted(Exception):
    """Something went wrong in the middle."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "client.db", schema="client")
    yield made
    made.close()


@pytest.fixture
def journal(database: Database) -> Journal:
    return Journal(database, SeededEntropy(1))


def note(database: Database, journal: Journal, at_ms: int = NOW_MS) -> None:
    with database.transaction():
        journal.append(JournalKind.SECURITY, at_ms=at_ms)


@clause("13.1")
@pytest.mark.parametrize("schema", ["client", "node"])
def test_a_fact_is_read_back_as_it_was_written(tmp_path: Path, schema: str) -> None:
    database = Database(tmp_path / "some.db", schema=schema)
    journal = Journal(database, SeededEntropy(1))
    with database.transaction():
        journal.append(
            JournalKind.RETRIED,
            at_ms=NOW_MS,
            message_id=message(7),
            session_tag=SessionTag(b"t" * 16),
            sequence=4_294_967_295,
            payload_hash=PayloadHash(b"h" * 32),
            size_bytes=262_144,
            message_kind=Kind.MEDIA,
            priority=Priority.LOW,
            attempt=15,
            code="E004",
            node=NodeId(b"n" * 32),
            latency_ms=-5,
            ttl_s=7_776_000,
        )
    assert facts(journal) == [
        JournalEvent(
            event_id=journal.events(after=0, limit=1)[0].event_id,
            at_ms=NOW_MS,
            kind=JournalKind.RETRIED,
            writer=journal.writer,
            message_id=message(7),
            session_tag=SessionTag(b"t" * 16),
            sequence=4_294_967_295,
            payload_hash=PayloadHash(b"h" * 32),
            size_bytes=262_144,
            message_kind=Kind.MEDIA,
            priority=Priority.LOW,
            attempt=15,
            code="E004",
            node=NodeId(b"n" * 32),
            latency_ms=-5,
            ttl_s=7_776_000,
        )
    ]
    assert event_number(facts(journal)[0].event_id) == 1
    assert facts(journal)[0].event_id[:8] == journal.writer[:8]
    database.close()


@clause("13.1")
def test_what_does_not_apply_to_a_fact_stays_empty(database: Database, journal: Journal) -> None:
    note(database, journal)
    [fact] = facts(journal)
    assert fact == JournalEvent(event_id=fact.event_id, at_ms=NOW_MS, kind=JournalKind.SECURITY, writer=journal.writer)


@clause("13.1")
@settings(max_examples=25)
@given(rounds=st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=8))
def test_numbers_have_no_holes_after_rollbacks(rounds: list[tuple[int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        database = Database(Path(directory) / "client.db", schema="client")
        journal = Journal(database, SeededEntropy(1))
        kept = 0
        for count, falls in rounds:
            with suppress(Interrupted), database.transaction():
                for _ in range(count):
                    note(database, journal)
                if falls:
                    raise Interrupted
            kept += 0 if falls else count
        assert [event_number(fact.event_id) for fact in facts(journal)] == list(range(1, kept + 1))
        database.close()


def test_facts_come_in_pages_oldest_first(database: Database, journal: Journal) -> None:
    for at_ms in (5, 3, 4):
        note(database, journal, at_ms)
    assert [fact.at_ms for fact in journal.events(after=0, limit=2)] == [5, 3]
    assert [fact.at_ms for fact in journal.events(after=2, limit=2)] == [4]
    assert journal.events(after=3, limit=2) == []


def test_a_kept_value_is_asked_for_once(journal: Journal) -> None:
    answers = iter([b"first", b"second"])
    assert journal.get_or_create_meta("some key", lambda: next(answers)) == b"first"
    assert journal.get_or_create_meta("some key", lambda: next(answers)) == b"first"
    assert journal.get_or_create_meta("other key", lambda: next(answers)) == b"second"


def test_a_kept_value_falls_with_its_transaction(database: Database, journal: Journal) -> None:
    with suppress(Interrupted), database.transaction():
        journal.get_or_create_meta("some key", lambda: b"first")
        raise Interrupted
    assert journal.get_or_create_meta("some key", lambda: b"second") == b"second"


@clause("13.1")
def test_the_writer_and_its_numbers_go_on_after_reopening(tmp_path: Path) -> None:
    writers = set()
    for seed in range(3):
        database = Database(tmp_path / "client.db", schema="client")
        journal = Journal(database, SeededEntropy(seed))
        note(database, journal)
        writers.add(journal.writer)
        database.close()
    database = Database(tmp_path / "client.db", schema="client")
    journal = Journal(database, SeededEntropy(9))
    assert writers == {journal.writer}
    assert [event_number(fact.event_id) for fact in facts(journal)] == [1, 2, 3]
    database.close()


def test_two_files_have_two_writers(tmp_path: Path) -> None:
    entropy = SeededEntropy(1)
    databases = [Database(tmp_path / name, schema="client") for name in ("a.db", "b.db")]
    first, second = (Journal(database, entropy).writer for database in databases)
    assert first != second
    for database in databases:
        database.close()


def test_what_was_shipped_is_remembered_over_reopening(tmp_path: Path) -> None:
    database = Database(tmp_path / "client.db", schema="client")
    journal = Journal(database, SeededEntropy(1))
    assert journal.shipped_through() == 0
    journal.mark_shipped(70_000)
    database.close()
    database = Database(tmp_path / "client.db", schema="client")
    assert Journal(database, SeededEntropy(2)).shipped_through() == 70_000
    database.close()


def blob_fact(number: int) -> BlobEvent:
    return BlobEvent(SessionTag(b"t" * 16), PayloadHash(bytes([number]) * 32), number, 10 * number)


@clause("13.1")
def test_facts_of_many_blobs_are_numbered_and_read_back_in_their_order(database: Database, journal: Journal) -> None:
    note(database, journal)
    with database.transaction():
        numbers = journal.append_many(JournalKind.STORED, [blob_fact(number) for number in (1, 2, 3)], at_ms=NOW_MS)
        after = journal.append(JournalKind.SECURITY, at_ms=NOW_MS)
    assert (list(numbers), after) == ([2, 3, 4], 5)
    found = [row for row in facts(journal) if row.kind is JournalKind.STORED]
    assert [event_number(row.event_id) for row in found] == [2, 3, 4]
    assert [(row.session_tag, row.payload_hash, row.size_bytes, row.ttl_s) for row in found] == [
        blob_fact(number) for number in (1, 2, 3)
    ]


def test_facts_of_many_blobs_fall_with_their_transaction_and_leave_no_hole(
    database: Database, journal: Journal
) -> None:
    with suppress(Interrupted), database.transaction():
        journal.append_many(JournalKind.STORED, [blob_fact(1), blob_fact(2)], at_ms=NOW_MS)
        raise Interrupted
    with database.transaction():
        assert list(journal.append_many(JournalKind.STORED, [blob_fact(3)], at_ms=NOW_MS)) == [1]
        assert list(journal.append_many(JournalKind.STORED, [], at_ms=NOW_MS)) == []
    assert [row.size_bytes for row in facts(journal)] == [3]
