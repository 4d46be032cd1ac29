"""The receiving side on disk: what was seen stays seen, order survives, and a receipt is owed until it is queued."""

from contextlib import suppress

import apsw
import pytest

from restante.core.decrypted_messages import DecryptedMessage
from restante.model.ids import Address
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.states import Verdict
from restante.policy.ack_batching import AckBatching
from restante.runtime.sqlite.inbox.pending_acks import OwedBatch
from restante.wire.acks import AckType
from support.fleet.journal_files import message
from support.inbox.decrypted_messages import ALICE, CAROL, SESSION, bodies, letter, receive, reopened
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, ClientFile, facts

BATCHING = AckBatching()


class Interrupted(Exception):
    """Something went wrong in the middle."""


def owed(file: ClientFile) -> list[Address]:
    return [batch.sender for batch in file.inbox.owed(BATCHING, now_ms=NOW_MS)]


@clause("9.6")
def test_a_new_message_comes_out_with_its_fields(file: ClientFile) -> None:
    assert receive(file, letter(0)) is Verdict.NEW
    [(place, entry)] = file.inbox.released(after=0, limit=10, now_ms=NOW_MS)
    assert place == 1
    assert (entry.message_id, entry.sender, entry.session_id) == (message(0), ALICE, SESSION)
    assert (entry.sequence_number, entry.plaintext) == (0, b"body 0")
    assert (entry.received_at_ms, entry.server_timestamp_ms) == (NOW_MS, NOW_MS - 100)
    assert (entry.ack_sent, entry.first_read_at_ms) == (False, None)
    file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS)
    [(_, entry)] = file.inbox.released(after=0, limit=10, now_ms=NOW_MS)
    assert entry.ack_sent


@clause("9.1")
def test_verdicts_are_the_same_after_reopening(file: ClientFile) -> None:
    assert receive(file, letter(0)) is Verdict.NEW
    again = reopened(file)
    assert receive(again, letter(0)) is Verdict.DUPLICATE
    assert receive(again, letter(0, sealed=b"other bytes")) is Verdict.COLLISION
    assert receive(again, letter(7, sequence=0)) is Verdict.REPLAY
    assert bodies(again) == [b"body 0"]
    again.database.close()


@clause("9.1")
def test_the_same_message_id_from_another_sender_is_another_message(file: ClientFile) -> None:
    assert receive(file, letter(0)) is Verdict.NEW
    assert receive(file, letter(0, sender=CAROL)) is Verdict.NEW


@clause("9.1")
def test_a_number_that_waits_is_consumed_too(file: ClientFile) -> None:
    assert receive(file, letter(5)) is Verdict.NEW
    assert receive(file, letter(6, sequence=5)) is Verdict.REPLAY


@clause("8.7", "9.1")
def test_a_replay_is_asked_for_by_its_hash_as_what_cannot_be_read(file: ClientFile) -> None:
    receive(file, letter(0))
    replay = letter(7, sequence=0)
    result = file.inbox.receive(replay, server_timestamp_ms=NOW_MS, now_ms=NOW_MS)
    assert result.verdict is Verdict.REPLAY
    assert [unread.payload_hash for unread in result.peer.unread] == [replay.payload_hash]


@clause("9.1", "13.1")
def test_each_arrival_is_a_fact_with_its_verdict_and_an_attack_a_security_fact_besides(file: ClientFile) -> None:
    for opened in (letter(0), letter(0), letter(0, sealed=b"other bytes"), letter(7, sequence=0)):
        receive(file, opened)
    told = [(fact.kind, fact.code) for fact in facts(file.journal) if fact.kind is not JournalKind.RELEASED]
    assert told == [
        (JournalKind.ARRIVED, "new"),
        (JournalKind.ARRIVED, "duplicate"),
        (JournalKind.ARRIVED, "collision"),
        (JournalKind.SECURITY, "collision"),
        (JournalKind.ARRIVED, "replay"),
        (JournalKind.SECURITY, "replay"),
    ]


@clause("1.2")
def test_what_came_early_waits_for_the_missing_one_over_reopening(file: ClientFile) -> None:
    for number in (2, 1):
        receive(file, letter(number))
    assert bodies(file) == []
    again = reopened(file)
    receive(again, letter(3))
    receive(again, letter(0), now_ms=NOW_MS + 50)
    assert bodies(again) == [b"body 0", b"body 1", b"body 2", b"body 3"]
    released = [fact for fact in facts(again.journal) if fact.kind is JournalKind.RELEASED]
    assert [fact.latency_ms for fact in released] == [0, 50, 50, 50]
    again.database.close()


@clause("1.2")
def test_sessions_do_not_wait_for_each_other(file: ClientFile) -> None:
    receive(file, letter(1))
    receive(file, letter(0, sender=CAROL))
    assert bodies(file) == [b"body 0"]


def test_the_application_reads_on_from_where_it_was(file: ClientFile) -> None:
    for number in range(5):
        receive(file, letter(number))
    places = [place for place, _ in file.inbox.released(after=0, limit=2, now_ms=NOW_MS)]
    assert bodies(file, after=places[-1]) == [b"body 2", b"body 3", b"body 4"]


@clause("9.4")
def test_a_message_more_than_a_thousand_ahead_is_unreadable_and_the_session_goes_on(file: ClientFile) -> None:
    receive(file, letter(3))
    refused = file.inbox.receive(letter(1_004), server_timestamp_ms=NOW_MS, now_ms=NOW_MS)
    assert (refused.verdict, refused.asks) == (None, ())
    assert [unread.payload_hash for unread in refused.peer.unread] == [letter(1_004).payload_hash]
    assert bodies(file) == []
    assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS) == (message(3),)
    told = [(fact.kind, fact.code) for fact in facts(file.journal)][1:]
    assert told == [(JournalKind.ARRIVED, "E009"), (JournalKind.SECURITY, "E009")]


@clause("9.3")
@pytest.mark.parametrize("table", ["dedup", "inbox_message", "inbox_session", "pending_ack", "journal"])
def test_an_arrival_that_fails_half_way_leaves_nothing_and_is_new_the_next_time(file: ClientFile, table: str) -> None:
    file.database.run(
        f"CREATE TEMP TRIGGER broken BEFORE INSERT ON {table} BEGIN SELECT raise(ABORT, 'the disk broke'); END"
    )
    with pytest.raises(apsw.ConstraintError, match="the disk broke"):
        receive(file, letter(0))
    assert (bodies(file), owed(file), facts(file.journal)) == ([], [], [])
    file.database.run("DROP TRIGGER broken")
    assert receive(file, letter(0)) is Verdict.NEW
    assert bodies(file) == [b"body 0"]


@clause("9.3", "1.3")
def test_a_receipt_is_owed_only_for_what_is_on_disk(file: ClientFile) -> None:
    with suppress(Interrupted), file.database.transaction():
        receive(file, letter(0))
        raise Interrupted
    assert owed(file) == []
    receive(file, letter(0))
    other = apsw.Connection(str(file.database.path), flags=apsw.SQLITE_OPEN_READONLY)
    on_disk = other.execute("SELECT message_id FROM pending_ack JOIN inbox_message USING (message_id)").fetchall()
    assert on_disk == [(message(0),)]
    other.close()


@clause("9.1", "10.4")
@pytest.mark.parametrize("again", [letter(0), letter(0, sealed=b"other bytes")], ids=["duplicate", "collision"])
def test_a_known_id_is_acknowledged_again_later_and_an_unknown_one_is_not(
    file: ClientFile, again: DecryptedMessage
) -> None:
    receive(file, letter(0))
    assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS) == (message(0),)
    receive(file, again)
    receive(file, letter(7, sequence=0))
    assert owed(file) == []
    assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS + 6 * 3_600_000) == (message(0),)


def test_two_receipts_for_one_message_leave_as_one(file: ClientFile) -> None:
    for _ in range(3):
        receive(file, letter(0))
    assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS + 6 * 3_600_000) == (message(0),)
    assert owed(file) == []


def ack_sent(file: ClientFile) -> list[bool]:
    return [entry.ack_sent for _, entry in file.inbox.released(after=0, limit=100, now_ms=NOW_MS)]


def test_a_receipt_is_settled_by_the_transaction_that_takes_it_or_stays_owed(file: ClientFile) -> None:
    for number in range(2):
        receive(file, letter(number))
    with suppress(Interrupted), file.database.transaction():
        assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS) == (message(0), message(1))
        raise Interrupted
    assert owed(file) == [ALICE]
    assert ack_sent(file) == [False, False]
    again = reopened(file)
    assert again.inbox.take_owed(ALICE, limit=1, now_ms=NOW_MS) == (message(0),)
    assert ack_sent(again) == [True, False]
    assert again.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS) == (message(1),)
    assert owed(again) == []
    again.database.close()


@clause("10.3")
def test_receipts_to_two_senders_are_two_batches(file: ClientFile) -> None:
    receive(file, letter(0, sender=CAROL))
    receive(file, letter(1))
    assert owed(file) == [CAROL, ALICE]
    assert file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS) == (message(1),)
    assert owed(file) == [CAROL]


def test_a_receipt_to_one_sender_settles_nothing_with_another_who_used_the_same_message_id(file: ClientFile) -> None:
    for sender in (ALICE, CAROL):
        receive(file, letter(0, sender=sender))
    file.inbox.take_owed(CAROL, limit=64, now_ms=NOW_MS)
    assert ack_sent(file) == [False, True]
    assert owed(file) == [ALICE]


@clause("10.5")
def test_a_batch_is_due_after_a_second_or_at_once_with_64_receipts(file: ClientFile) -> None:
    with file.database.transaction():
        for number in range(63):
            receive(file, letter(number), now_ms=NOW_MS + number)
    now_ms = NOW_MS + 63
    due_ms = NOW_MS + 1_000
    assert file.inbox.owed(BATCHING, now_ms=now_ms) == [OwedBatch(sender=ALICE, type=AckType.RECEIPT, due_at_ms=due_ms)]
    receive(file, letter(63), now_ms=NOW_MS + 63)
    [full] = file.inbox.owed(BATCHING, now_ms=now_ms)
    assert full.due_at_ms <= NOW_MS + 63


def test_control_messages_are_neither_shown_nor_acknowledged(file: ClientFile) -> None:
    for number in (1, 0):
        assert receive(file, letter(number, kind=Kind.CONTROL)) is Verdict.NEW
    assert bodies(file) == []
    assert owed(file) == []
    assert file.database.run("SELECT count(*) FROM reorder_buffer") == [(0,)]


@clause("13.1")
def test_an_arrival_is_journaled_with_the_size_of_its_envelope_not_of_its_words(file: ClientFile) -> None:
    receive(file, letter(0))
    assert [fact.size_bytes for fact in facts(file.journal) if fact.kind is JournalKind.ARRIVED] == [1_696]


@clause("2.10")
@pytest.mark.parametrize("peers_clock_ms", [0, NOW_MS - 10**9, NOW_MS + 10**9, 253_402_300_799_999])
def test_no_clock_of_a_peer_changes_a_verdict_or_the_order(file: ClientFile, peers_clock_ms: int) -> None:
    arrivals = [letter(1, written_at_ms=peers_clock_ms), letter(0), letter(1, written_at_ms=peers_clock_ms)]
    verdicts = [
        file.inbox.receive(opened, server_timestamp_ms=peers_clock_ms, now_ms=NOW_MS).verdict for opened in arrivals
    ]
    assert verdicts == [Verdict.NEW, Verdict.NEW, Verdict.DUPLICATE]
    released = [fact.message_id for fact in facts(file.journal) if fact.kind is JournalKind.RELEASED]
    assert released == [message(0), message(1)], "an old date may end a message's life, but not change its place"
