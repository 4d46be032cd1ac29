"""Gaps, other sessions and batches of the inbox on disk."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from restante.core.decrypted_messages import DecryptedMessage
from restante.core.deduplication import UnsealedHeader
from restante.core.inbox_events import InboxEventType, RequestRetransmit
from restante.core.receiving import CannotDecrypt
from restante.model.errors import LocalProtocolError
from restante.model.ids import SessionId
from restante.model.inbox_entry import HeldBack
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.states import Verdict
from restante.policy.ack_batching import AckBatching
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.statement_batching import Column
from restante.runtime.sqlite.inbox.results import Asked
from support.fleet.journal_files import message
from support.inbox.decrypted_messages import ALICE, NEXT_SESSION, SESSION, bodies, letter, receive, reopened, shown
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, ClientFile, facts

GAP_MS = 300_000
DAY_MS = 86_400_000


class Interrupted(Exception):
    """Something went wrong in the middle."""


def notices(file: ClientFile) -> list[tuple[InboxEventType, str | None, int]]:
    return [(change.notice, change.code, change.how_many) for change in file.inbox.take_changes()]


def outside(opened: DecryptedMessage) -> UnsealedHeader:
    return UnsealedHeader(
        opened.sender,
        opened.session_id,
        opened.message_id,
        opened.payload_hash,
        opened.envelope_bytes,
    )


@clause("9.5")
def test_messages_behind_a_gap_are_listed_with_the_end_of_their_wait(file: ClientFile) -> None:
    receive(file, letter(0))
    assert file.inbox.held_back() == []
    for number in (3, 4):
        receive(file, letter(number))
    assert file.inbox.held_back() == [HeldBack(sender=ALICE, messages=2, until_ms=NOW_MS + GAP_MS)]
    file.inbox.pass_time(now_ms=NOW_MS + GAP_MS)
    assert file.inbox.held_back() == []


@clause("9.5")
def test_after_five_minutes_the_gap_is_recorded_skipped_and_asked_for(file: ClientFile) -> None:
    for number in (0, 3, 4):
        receive(file, letter(number))
    assert file.inbox.next_wake_ms() == NOW_MS + GAP_MS
    assert file.inbox.pass_time(now_ms=NOW_MS + GAP_MS - 1) == []
    again = reopened(file)
    asks = again.inbox.pass_time(now_ms=NOW_MS + GAP_MS)
    assert asks == [Asked(sender=ALICE, session_id=SESSION, what=RequestRetransmit(1, 11))]
    assert bodies(again) == [b"body 0", b"body 3", b"body 4"]
    assert again.inbox.next_wake_ms() is None
    ranges = [(fact.kind, fact.sequence, fact.last_sequence) for fact in facts(again.journal)]
    assert (JournalKind.GAP_SKIPPED, 1, 2) in ranges
    assert (JournalKind.RETRANSMIT_REQUESTED, 1, 11) in ranges
    assert notices(again)[0] == (InboxEventType.GAP, "1_through_2", 2)
    again.database.close()


@clause("9.5")
def test_a_late_original_is_shown_once_out_of_order_and_marked_so(file: ClientFile) -> None:
    receive(file, letter(0))
    receive(file, letter(2))
    file.inbox.pass_time(now_ms=NOW_MS + GAP_MS)
    again = reopened(file)
    assert receive(again, letter(1), now_ms=NOW_MS + GAP_MS + 1) is Verdict.NEW
    assert receive(again, letter(1), now_ms=NOW_MS + GAP_MS + 2) is Verdict.DUPLICATE
    assert [(entry.plaintext, entry.is_late) for entry in shown(again)] == [
        (b"body 0", False),
        (b"body 2", False),
        (b"body 1", True),
    ]
    assert [change.is_late for change in again.inbox.take_changes()] == [True]
    late = [fact.code for fact in facts(again.journal) if fact.kind is JournalKind.RELEASED]
    assert late == [None, None, "late"]
    again.database.close()


@clause("9.5")
def test_an_arrival_finds_an_old_gap_without_anybody_having_looked_at_the_clock(file: ClientFile) -> None:
    receive(file, letter(1))
    arrival = file.inbox.receive(letter(2), server_timestamp_ms=NOW_MS, now_ms=NOW_MS + GAP_MS)
    assert (arrival.verdict, len(arrival.asks)) == (Verdict.NEW, 1)
    assert bodies(file) == [b"body 1", b"body 2"]


@clause("9.4")
def test_a_thousand_wait_over_reopening_and_the_next_one_skips_the_gap_at_once(file: ClientFile) -> None:
    with file.inbox.batch(now_ms=NOW_MS) as batch:
        for number in range(1, 1_001):
            batch.receive_decrypted(letter(number), server_timestamp_ms=NOW_MS)
    again = reopened(file)
    assert bodies(again) == []
    skipping = again.inbox.receive(letter(1_001), server_timestamp_ms=NOW_MS, now_ms=NOW_MS)
    assert skipping.verdict is Verdict.NEW
    assert [ask.what for ask in skipping.asks] == [RequestRetransmit(0, 10)]
    assert bodies(again) == [b"body %d" % number for number in range(1, 1_002)]
    assert again.database.run("SELECT count(*) FROM reorder_buffer") == [(0,)]
    again.database.close()


@clause("9.4")
def test_a_million_ahead_is_unreadable_and_leaves_a_handful_of_rows(file: ClientFile) -> None:
    receive(file, letter(0))
    before = file.database.changes()
    assert receive(file, letter(1_000_000)) is None
    assert file.database.changes() - before <= 5
    assert receive(file, letter(1)) is Verdict.NEW, "the session goes on"
    assert receive(file, letter(0)) is Verdict.DUPLICATE


def test_an_unreadable_message_of_an_unknown_session_adds_no_session(file: ClientFile) -> None:
    with file.inbox.batch(now_ms=NOW_MS) as batch:
        for number in range(50):
            unknown = letter(number, session=SessionId(bytes([number]) * 32))
            batch.receive(outside(unknown), decrypt=CannotDecrypt, server_timestamp_ms=NOW_MS)
    assert file.database.run("SELECT count(*) FROM inbox_session") == [(0,)]
    told = [fact.code for fact in facts(file.journal) if fact.kind is JournalKind.ARRIVED]
    assert told == ["E009"] * 50


@clause("9.1")
def test_a_message_sealed_again_in_a_new_session_is_acknowledged_and_not_shown_twice(file: ClientFile) -> None:
    receive(file, letter(0))
    receive(file, letter(2))
    again = reopened(file)
    resealed = [letter(number, session=NEXT_SESSION, sequence=number) for number in (2, 1, 0)]
    assert [receive(again, one) for one in resealed] == [Verdict.DUPLICATE, Verdict.NEW, Verdict.DUPLICATE]
    assert receive(again, letter(3, session=NEXT_SESSION)) is Verdict.NEW
    assert bodies(again) == [b"body 0", b"body 1", b"body 3"]
    assert receive(again, letter(1)) is Verdict.DUPLICATE
    assert bodies(again) == [b"body 0", b"body 1", b"body 3", b"body 2"]
    assert set(again.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS + DAY_MS)) == {message(n) for n in range(4)}
    assert receive(again, resealed[0]) is Verdict.DUPLICATE, "known in the new session, too"
    again.database.close()


@clause("9.1")
def test_an_original_that_comes_after_it_was_sealed_again_is_not_shown_twice_either(file: ClientFile) -> None:
    assert receive(file, letter(0, session=NEXT_SESSION)) is Verdict.NEW
    assert receive(file, letter(0)) is Verdict.DUPLICATE
    assert receive(file, letter(1)) is Verdict.NEW
    assert bodies(file) == [b"body 0", b"body 1"]


@clause("9.1")
def test_another_content_under_a_known_id_is_a_collision_and_holds_nothing_up(file: ClientFile) -> None:
    receive(file, letter(0))
    forged = letter(0, session=NEXT_SESSION, body=b"something else")
    assert receive(file, forged) is Verdict.COLLISION
    assert receive(file, letter(1, session=NEXT_SESSION)) is Verdict.NEW
    assert bodies(file) == [b"body 0", b"body 1"]
    assert (InboxEventType.SECURITY, "collision", 1) in notices(file)
    assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS) == (message(0), message(1))


@clause("9.4")
def test_a_control_message_is_acted_on_when_it_is_decrypted_and_only_occupies_its_number(file: ClientFile) -> None:
    early = file.inbox.receive(letter(1, kind=Kind.CONTROL), server_timestamp_ms=0, now_ms=NOW_MS)
    assert early.control is not None
    assert early.control.body == b"body 1"
    receive(file, letter(2))
    receive(file, letter(0))
    assert bodies(file) == [b"body 0", b"body 2"]
    assert file.inbox.receive(letter(1, kind=Kind.CONTROL), server_timestamp_ms=0, now_ms=NOW_MS).control is None


@clause("9.1")
def test_a_repeat_is_recognised_without_being_opened(file: ClientFile) -> None:
    once, control = letter(0), letter(1, kind=Kind.CONTROL)
    unopened: list[DecryptedMessage] = []

    def never(opened: DecryptedMessage) -> Callable[[], CannotDecrypt]:
        def decrypt() -> CannotDecrypt:
            unopened.append(opened)
            return CannotDecrypt(Verdict.REPLAY)

        return decrypt

    with file.inbox.batch(now_ms=NOW_MS) as batch:
        batch.receive_decrypted(once, server_timestamp_ms=NOW_MS)
        batch.receive_decrypted(control, server_timestamp_ms=NOW_MS)
        collided, unknown = letter(0, sealed=b"other bytes"), letter(9)
        verdicts = [
            batch.receive(outside(one), decrypt=never(one), server_timestamp_ms=NOW_MS).verdict
            for one in (once, control, collided, unknown)
        ]
    assert verdicts == [Verdict.DUPLICATE, Verdict.DUPLICATE, Verdict.COLLISION, Verdict.REPLAY]
    assert unopened == [unknown]
    assert file.database.run("SELECT message_id FROM pending_ack") == [(message(0),), (message(0),)]
    told = [fact.code for fact in facts(file.journal) if fact.kind is JournalKind.ARRIVED]
    assert told == ["new", "new", "duplicate", "duplicate", "collision", "replay"]
    assert [code for notice, code, _ in notices(file) if notice is InboxEventType.SECURITY] == ["collision", "replay"]


@clause("10.3")
def test_a_duplicate_is_acknowledged_again_once_a_day_after_a_random_delay(file: ClientFile) -> None:
    receive(file, letter(0))
    file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS)
    for minute in range(100):
        receive(file, letter(0), now_ms=NOW_MS + minute * 60_000)
    [(since_ms,)] = file.database.run("SELECT since_ms FROM pending_ack")
    assert NOW_MS < since_ms <= NOW_MS + 6 * 3_600_000
    assert file.inbox.owed(AckBatching(), now_ms=since_ms - 1) == []
    again = reopened(file)
    assert again.inbox.next_delayed_ack_ms(now_ms=NOW_MS) == since_ms
    assert again.inbox.take_owed(ALICE, limit=64, now_ms=since_ms) == (message(0),)
    receive(again, letter(0), now_ms=NOW_MS + DAY_MS - 1)
    assert again.database.run("SELECT count(*) FROM pending_ack") == [(0,)]
    receive(again, letter(0), now_ms=NOW_MS + DAY_MS)
    assert again.database.run("SELECT count(*) FROM pending_ack") == [(1,)]
    again.database.close()


@clause("9.3")
def test_a_batch_is_kept_whole_or_not_at_all(file: ClientFile) -> None:
    with suppress(Interrupted), file.inbox.batch(now_ms=NOW_MS) as batch:
        for number in (0, 1, 3):
            batch.receive_decrypted(letter(number), server_timestamp_ms=NOW_MS)
        raise Interrupted
    assert (bodies(file), facts(file.journal), file.inbox.take_changes()) == ([], [], [])
    with file.inbox.batch(now_ms=NOW_MS) as batch:
        for number in (3, 1, 0, 3, 2):
            batch.receive_decrypted(letter(number), server_timestamp_ms=NOW_MS)
    assert bodies(file) == [b"body %d" % number for number in range(4)]


@pytest.mark.parametrize("cut", range(7))
def test_how_arrivals_are_cut_into_batches_changes_nothing(file: ClientFile, cut: int) -> None:
    arrivals = [letter(number) for number in (2, 0, 0, 3, 1, 4)]
    for part in (arrivals[:cut], arrivals[cut:]):
        with file.inbox.batch(now_ms=NOW_MS) as batch:
            for opened in part:
                batch.receive_decrypted(opened, server_timestamp_ms=NOW_MS)
    told = [(fact.kind.value, fact.sequence, fact.code) for fact in facts(file.journal)]
    assert told == [
        ("arrived", 2, "new"),
        ("arrived", 0, "new"),
        ("released", 0, None),
        ("arrived", None, "duplicate"),
        ("arrived", 3, "new"),
        ("arrived", 1, "new"),
        ("released", 1, None),
        ("released", 2, None),
        ("released", 3, None),
        ("arrived", 4, "new"),
        ("released", 4, None),
    ]


def test_a_batch_in_order_takes_two_statements_beside_deferred_rows_however_many_share_it(
    file: ClientFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted where they are run: what makes a batch of 64 cheap must not be lost unnoticed."""
    receive(file, letter(0))
    counted: list[str] = []
    rows, reads = Database.rows, Database.query_without_writing

    def counting(database: Database, sql: str, *values: Column) -> list[tuple[Any, ...]]:
        counted.append(sql)
        return rows(database, sql, *values)

    def counting_too(database: Database, sql: str, *values: Column) -> list[tuple[Any, ...]]:
        counted.append(sql)
        return reads(database, sql, *values)

    monkeypatch.setattr(Database, "rows", counting)
    monkeypatch.setattr(Database, "query_without_writing", counting_too)
    letters = [letter(number) for number in range(1, 65)]
    with file.inbox.batch(now_ms=NOW_MS) as batch:
        batch.expect((one.sender, one.message_id) for one in letters)
        for one in letters:
            batch.receive_decrypted(one, server_timestamp_ms=NOW_MS)
    assert len(counted) == 2


@clause("9.1", "9.5")
def test_who_uses_the_number_of_a_message_that_waits_cannot_take_its_place_when_the_gap_ends(file: ClientFile) -> None:
    receive(file, letter(1))
    forged = letter(7, sequence=1, body=b"forged")
    assert receive(file, forged, now_ms=NOW_MS + GAP_MS) is Verdict.REPLAY
    assert bodies(file) == [b"body 1"]
    assert file.database.run("SELECT count(*) FROM reorder_buffer") == [(0,)]


def test_there_is_one_batch_at_a_time(file: ClientFile) -> None:
    with file.inbox.batch(now_ms=NOW_MS) as batch:
        with pytest.raises(LocalProtocolError, match="a batch is under way"):
            receive(file, letter(0))
        batch.receive_decrypted(letter(0), server_timestamp_ms=NOW_MS)
    receive(file, letter(1))
    assert bodies(file) == [b"body 0", b"body 1"]


def test_looking_when_there_is_nothing_to_do_writes_nothing(file: ClientFile) -> None:
    receive(file, letter(0))
    before = file.database.changes()
    file.inbox.pass_time(now_ms=NOW_MS)
    file.inbox.sweep(now_ms=NOW_MS)
    file.inbox.mark_read(99, now_ms=NOW_MS, acknowledge=True)
    assert file.database.changes() == before
