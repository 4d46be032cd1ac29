"""How long messages stay in the inbox, what reading one does, and which acknowledgements follow."""

from contextlib import suppress

import pytest

from restante.model.journal import JournalKind
from restante.model.kinds import Kind, TtlType
from restante.policy.ack_batching import AckBatching
from restante.runtime.sqlite.file.database import load_queries
from restante.runtime.sqlite.inbox.pending_acks import OwedBatch
from restante.wire.acks import AckType
from support.fleet.journal_files import message
from support.inbox.decrypted_messages import ALICE, SESSION, bodies, letter, receive, reopened, shown
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, ClientFile, facts

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Interrupted(Exception):
    """Something went wrong in the middle."""


def vanished(file: ClientFile) -> list[tuple[int | None, str | None]]:
    return [(fact.sequence, fact.code) for fact in facts(file.journal) if fact.kind is JournalKind.INBOX_EXPIRED]


@clause("9.7", "2.6")
def test_an_expired_message_is_not_shown_from_its_last_millisecond_on(file: ClientFile) -> None:
    receive(file, letter(0, written_at_ms=NOW_MS, ttl_s=3_600))
    assert bodies(file, now_ms=NOW_MS + HOUR_MS - 1) == [b"body 0"]
    assert bodies(file, now_ms=NOW_MS + HOUR_MS) == []


@clause("9.7")
def test_a_sweep_removes_what_has_expired_and_says_so(file: ClientFile) -> None:
    receive(file, letter(0, written_at_ms=NOW_MS, ttl_s=3_600))
    receive(file, letter(1, written_at_ms=NOW_MS, ttl_s=7_200))
    assert file.inbox.sweep(now_ms=NOW_MS + HOUR_MS - 1) == 0
    assert file.inbox.sweep(now_ms=NOW_MS + HOUR_MS) == 1
    assert vanished(file) == [(0, "E010")]
    assert file.database.run("SELECT sequence_number FROM inbox_message") == [(1,)]
    assert receive(file, letter(0, written_at_ms=NOW_MS, ttl_s=3_600)) == "duplicate", "gone, and still known"


@clause("9.7")
def test_what_came_too_late_takes_its_place_and_is_never_shown(file: ClientFile) -> None:
    receive(file, letter(0, written_at_ms=NOW_MS - DAY_MS, ttl_s=3_600))
    receive(file, letter(1))
    assert bodies(file) == [b"body 1"]


@clause("2.6", "9.7")
def test_a_relative_life_begins_with_the_first_reading(file: ClientFile) -> None:
    fleeting = letter(0, kind=Kind.DISAPPEARING, ttl_s=60, ttl_type=TtlType.RELATIVE, written_at_ms=0)
    receive(file, fleeting)
    [entry] = shown(file, now_ms=NOW_MS + 400 * DAY_MS)
    assert (entry.first_read_at_ms, entry.expires_at_ms) == (None, None)
    read_at_ms = NOW_MS + 10 * DAY_MS
    assert file.inbox.mark_read(1, now_ms=read_at_ms)
    assert not file.inbox.mark_read(1, now_ms=read_at_ms + 1_000), "only the first time counts"
    again = reopened(file)
    [entry] = shown(again, now_ms=read_at_ms + 59_999)
    assert (entry.first_read_at_ms, entry.expires_at_ms) == (read_at_ms, read_at_ms + 60_000)
    assert shown(again, now_ms=read_at_ms + 60_000) == []
    assert again.inbox.sweep(now_ms=read_at_ms + 60_000) == 1
    again.database.close()


def test_reading_does_not_change_an_absolute_life(file: ClientFile) -> None:
    receive(file, letter(0, written_at_ms=NOW_MS, ttl_s=3_600))
    file.inbox.mark_read(1, now_ms=NOW_MS + 5)
    [entry] = shown(file)
    assert (entry.first_read_at_ms, entry.expires_at_ms) == (NOW_MS + 5, NOW_MS + HOUR_MS)


@pytest.mark.parametrize("place", [0, 2, 99])
def test_there_is_nothing_to_read_where_there_is_nothing(file: ClientFile, place: int) -> None:
    receive(file, letter(0))
    assert not file.inbox.mark_read(place, now_ms=NOW_MS)


def test_an_expired_message_cannot_be_read(file: ClientFile) -> None:
    receive(file, letter(0, written_at_ms=NOW_MS, ttl_s=3_600))
    assert not file.inbox.mark_read(1, now_ms=NOW_MS + HOUR_MS, acknowledge=True)


@clause("10.1")
def test_a_sender_is_told_that_its_message_was_read_only_if_the_reader_wants_that(file: ClientFile) -> None:
    for number in range(2):
        receive(file, letter(number))
    file.inbox.mark_read(1, now_ms=NOW_MS + 5)
    file.inbox.mark_read(2, now_ms=NOW_MS + 5, acknowledge=True)
    assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS + 5, type_=AckType.READ) == (message(1),)
    assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS) == (message(0), message(1))


@clause("10.5")
def test_receipts_and_read_acks_are_batches_of_their_own(file: ClientFile) -> None:
    receive(file, letter(0))
    file.inbox.mark_read(1, now_ms=NOW_MS + 5, acknowledge=True)
    assert file.inbox.owed(AckBatching(), now_ms=NOW_MS + 5) == [
        OwedBatch(sender=ALICE, type=AckType.RECEIPT, due_at_ms=NOW_MS + 1_000),
        OwedBatch(sender=ALICE, type=AckType.READ, due_at_ms=NOW_MS + 1_005),
    ]


def test_a_read_ack_is_owed_only_for_a_reading_that_is_on_disk(file: ClientFile) -> None:
    receive(file, letter(0))
    with suppress(Interrupted), file.database.transaction():
        file.inbox.mark_read(1, now_ms=NOW_MS, acknowledge=True)
        raise Interrupted
    assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS + 5, type_=AckType.READ) == ()
    [entry] = shown(file)
    assert entry.first_read_at_ms is None


def test_no_place_is_given_twice_even_when_the_inbox_was_emptied(file: ClientFile) -> None:
    receive(file, letter(0, written_at_ms=NOW_MS, ttl_s=3_600))
    file.inbox.sweep(now_ms=NOW_MS + HOUR_MS)
    receive(file, letter(1))
    assert [place for place, _ in file.inbox.released(after=0, limit=10, now_ms=NOW_MS)] == [2]


@clause("9.6")
def test_no_body_lies_readable_on_the_disk_whether_it_waits_or_was_handed_on(file: ClientFile) -> None:
    receive(file, letter(0, body=b"the secret was handed on"))
    receive(file, letter(2, body=b"the secret waits for one"))
    assert [entry.kind for entry in shown(file)] == [Kind.TEXT]
    assert file.database.run("SELECT count(*) FROM reorder_buffer") == [(1,)]
    file.database.run("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"the secret" not in file.database.path.read_bytes()
    assert bytes(SESSION) in file.database.path.read_bytes(), "the search finds what is there"


def test_the_first_message_to_show_is_found_by_an_index(file: ClientFile) -> None:
    """Without it each page would read all messages that were processed before."""
    query = load_queries("inbox/store")["first_unacked"]
    [(*_, only_step)] = file.database.run("EXPLAIN QUERY PLAN " + query)
    assert "inbox_message_unacked" in only_step
