"""The outbox on disk: what was accepted stays, once, and each change stands beside the fact that tells of it."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from restante.core.outbox_events import Cancelled, ReceiptAcked, TransmitSucceeded
from restante.model.errors import DuplicateMessageId, OutboxFull
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import Lease, OutboxEntry
from restante.model.states import Confirmation, Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.settings import Settings
from restante.wire.envelope import hash_sealed_bytes
from support.fleet.journal_files import message
from support.outbox.entries import DAY_MS, accept, entry
from support.spec.clauses import clause
from support.sqlite.files import (
    NOW_MS,
    ClientFile,
    assert_books_balance,
    chosen,
    facts,
    history,
    open_client_file,
    place,
    states_by_journal,
    states_by_rows,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


class Interrupted(Exception):
    """Something went wrong in the middle."""


@clause("3.1")
def test_every_field_of_an_entry_comes_back_as_it_was(file: ClientFile) -> None:
    full = entry(
        1,
        route=Route.CHANNEL,
        lane="chat 5",
        kind=Kind.MEDIA,
        priority=Priority.LOW,
        queued_at_ms=NOW_MS + 1,
        ttl_s=7,
        expires_at_ms=NOW_MS + 2,
        next_attempt_at_ms=NOW_MS + 3,
        attempts=4,
        state=State.SENDING,
        lease=Lease(owner="me", until_ms=NOW_MS + 5),
        last_error="E004",
        first_attempt_at_ms=NOW_MS + 6,
        last_attempt_at_ms=NOW_MS + 7,
        times_stored=1,
        failures=3,
        has_failed_to_encrypt=True,
        confirmation=Confirmation.STORED,
    )
    place(file, full)
    accept(file.outbox, entry(2))
    assert file.outbox.load(message(1)) == full._replace(queue_number=1)
    assert file.outbox.load(message(2)) == entry(2)._replace(queue_number=2)
    assert file.outbox.load(message(3)) is None


@clause("3.2", "1.3")
def test_an_accepted_entry_is_seen_by_another_connection_once_accept_returned(file: ClientFile) -> None:
    accept(file.outbox, entry(1))
    other = apsw.Connection(str(file.database.path), flags=apsw.SQLITE_OPEN_READONLY)
    joined = other.execute("SELECT entry.message_id, state, payload FROM entry JOIN message_body USING (body_id)")
    assert joined.fetchall() == [(message(1), "pending", b"payload 1")]
    other.close()


@clause("1.4", "13.1")
def test_acceptance_is_a_fact_with_the_hash_of_the_sealed_bytes(file: ClientFile) -> None:
    accept(file.outbox, entry(1))
    [fact] = facts(file.journal)
    assert (fact.kind, fact.message_id, fact.at_ms) == (JournalKind.ACCEPTED, message(1), NOW_MS)
    assert fact.payload_hash == hash_sealed_bytes(b"payload 1")
    assert (fact.message_kind, fact.priority, fact.ttl_s) == (Kind.TEXT, Priority.NORMAL, 86_400)


def test_a_known_message_id_is_refused_and_the_first_message_kept(file: ClientFile) -> None:
    accept(file.outbox, entry(1))
    with pytest.raises(DuplicateMessageId):
        accept(file.outbox, entry(1, payload=b"another", lane="relay-2"))
    assert file.outbox.load(message(1)) == entry(1)._replace(queue_number=1)
    assert history(file, 1) == [JournalKind.ACCEPTED]


def test_the_message_id_of_a_dead_letter_or_a_tombstone_is_refused(file: ClientFile) -> None:
    """Accepted twice, it could die twice, and there is one place for a dead letter."""
    accept(file.outbox, entry(1, expires_at_ms=NOW_MS + 40 * DAY_MS))
    accept(file.outbox, entry(2))
    file.outbox.apply(message(1), Cancelled(), now_ms=NOW_MS)
    file.outbox.sweep(now_ms=NOW_MS + DAY_MS)
    assert states_by_rows(file.database) == {message(1): State.DEAD, message(2): State.EXPIRED}
    for number in (1, 2):
        with pytest.raises(DuplicateMessageId):
            accept(file.outbox, entry(number), now_ms=NOW_MS + DAY_MS)
    assert_books_balance(file)


@clause("3.6")
def test_an_outbox_full_of_entries_refuses_the_next_and_evicts_nothing(tmp_path: Path) -> None:
    file = open_client_file(tmp_path / "client.db", settings=Settings(outbox=OutboxLimits(max_entries=100)))
    with file.database.transaction():
        for number in range(100):
            accept(file.outbox, entry(number, lane=f"lane {number % 2}"))
    with pytest.raises(OutboxFull, match="the outbox holds 100 messages; its limit is 100"):
        accept(file.outbox, entry(100))
    assert states_by_rows(file.database) == {message(number): State.PENDING for number in range(100)}
    assert history(file, 100) == []
    file.outbox.apply(message(3), ReceiptAcked(), now_ms=NOW_MS)
    accept(file.outbox, entry(100))
    assert_books_balance(file)
    file.database.close()


@clause("3.6")
def test_an_outbox_full_of_bytes_refuses_what_would_pass_the_limit_and_takes_what_fits(tmp_path: Path) -> None:
    limits = OutboxLimits(max_payload_bytes=1_000_000)
    file = open_client_file(tmp_path / "client.db", settings=Settings(outbox=limits))
    accept(file.outbox, entry(1, payload=bytes(800_000)))
    with pytest.raises(OutboxFull, match="200001 more would pass its limit of 1000000"):
        accept(file.outbox, entry(2, lane="relay-2", payload=bytes(200_001)))
    accept(file.outbox, entry(3, lane="relay-2", payload=bytes(200_000)))
    assert states_by_rows(file.database) == {message(1): State.PENDING, message(3): State.PENDING}
    file.database.close()


def fill_lane(file: ClientFile, *, route: Route = Route.UPSTREAM) -> None:
    """256 entries; the oldest by its clock is number 5."""
    with file.database.transaction():
        for number in range(256):
            accept(file.outbox, entry(number, route=route, created_at_ms=NOW_MS - (number == 5)))


@clause("3.6", "1.4")
def test_the_257th_of_an_upstream_lane_evicts_the_oldest_visibly(file: ClientFile) -> None:
    fill_lane(file)
    assert file.outbox.counts() == {State.PENDING: 256}
    accept(file.outbox, entry(256, route=Route.UPSTREAM))
    assert history(file, 5) == [JournalKind.ACCEPTED, JournalKind.EVICTED]
    assert [fact.code for fact in facts(file.journal)][-1] == "EvictedForCapacity"
    accept(file.outbox, entry(257, route=Route.UPSTREAM))
    assert history(file, 0) == [JournalKind.ACCEPTED, JournalKind.EVICTED]  # equal clocks: who came first goes
    assert file.outbox.counts() == {State.PENDING: 256}
    assert_books_balance(file)


@clause("3.6")
def test_other_lanes_and_routes_and_what_is_under_way_are_not_evicted(file: ClientFile) -> None:
    fill_lane(file)
    accept(file.outbox, entry(900, route=Route.UPSTREAM, lane="server-2"))
    accept(file.outbox, entry(901, route=Route.MESH))
    assert file.outbox.counts() == {State.PENDING: 258}
    file.outbox.lease_next(owner="me", now_ms=NOW_MS)
    accept(file.outbox, entry(902, route=Route.UPSTREAM))  # one of the lane is being sent: 256 are pending
    assert file.outbox.counts() == {State.PENDING: 258, State.SENDING: 1}


@clause("1.8", "3.6")
@pytest.mark.parametrize("route", [Route.MESH, Route.RELAY])
def test_mail_is_never_evicted(file: ClientFile, route: Route) -> None:
    fill_lane(file, route=route)
    accept(file.outbox, entry(256, route=route))
    assert file.outbox.counts() == {State.PENDING: 257}


@clause("1.4")
def test_a_transaction_around_an_acceptance_takes_both_the_entry_and_its_fact_with_it(file: ClientFile) -> None:
    with suppress(Interrupted), file.database.transaction():
        accept(file.outbox, entry(1))
        raise Interrupted
    assert file.outbox.load(message(1)) is None
    assert facts(file.journal) == []


def lease(file: ClientFile) -> None:
    file.outbox.lease_next(owner="me", now_ms=NOW_MS)


def receipt(file: ClientFile) -> None:
    file.outbox.apply(message(0), ReceiptAcked(), now_ms=NOW_MS)


def expire(file: ClientFile) -> None:
    file.outbox.sweep(now_ms=NOW_MS + DAY_MS)


def overfill(file: ClientFile) -> None:
    accept(file.outbox, entry(1, route=Route.UPSTREAM))


@clause("1.4")
@pytest.mark.parametrize(
    ("change", "fails"),
    [
        (overfill, "INSERT ON outbox"),
        (overfill, "INSERT ON message_body"),
        (overfill, "INSERT ON journal WHEN new.kind = 'accepted'"),
        (overfill, "INSERT ON journal WHEN new.kind = 'evicted'"),
        (overfill, "DELETE ON outbox"),
        (lease, "INSERT ON journal"),
        (lease, "UPDATE ON outbox"),
        (receipt, "INSERT ON journal"),
        (receipt, "DELETE ON outbox"),
        (expire, "INSERT ON journal"),
        (expire, "INSERT ON dead_letter"),
        (expire, "DELETE ON outbox"),
    ],
)
def test_a_change_that_fails_half_way_leaves_neither_row_nor_fact(
    tmp_path: Path, change: Callable[[ClientFile], None], fails: str
) -> None:
    limits = OutboxLimits(max_pending_per_upstream_lane=1)
    file = open_client_file(tmp_path / "client.db", settings=Settings(outbox=limits))
    accept(file.outbox, entry(0, route=Route.UPSTREAM))
    before = (file.outbox.load(message(0)), states_by_rows(file.database), facts(file.journal))
    statement, _, condition = fails.partition(" WHEN ")
    when = f"WHEN {condition}" if condition else ""
    file.database.run(
        f"CREATE TEMP TRIGGER broken BEFORE {statement} {when} BEGIN SELECT raise(ABORT, 'the disk broke'); END"
    )
    with pytest.raises(apsw.ConstraintError, match="the disk broke"):
        change(file)
    assert (file.outbox.load(message(0)), states_by_rows(file.database), facts(file.journal)) == before
    file.database.run("DROP TRIGGER broken")
    change(file)
    assert facts(file.journal) != before[2]
    assert_books_balance(file)
    file.database.close()


@clause("3.8")
def test_relay_and_mesh_entries_are_kept_until_the_receipt_and_channel_entries_until_accepted(file: ClientFile) -> None:
    for number, route in enumerate(Route):
        accept(file.outbox, entry(number, route=route))
        file.outbox.apply(message(number), TransmitSucceeded(), now_ms=NOW_MS)
    assert list(Route) == [Route.MESH, Route.RELAY, Route.UPSTREAM, Route.CHANNEL]
    sent = {message(0): State.SENT, message(1): State.SENT}
    assert states_by_journal(file.journal) == sent | dict.fromkeys((message(2), message(3)), State.DELIVERED)
    assert states_by_rows(file.database) == sent
    for _first_and_again in range(2):
        for number in (0, 1):
            file.outbox.apply(message(number), ReceiptAcked(), now_ms=NOW_MS)
    assert states_by_rows(file.database) == {}
    assert history(file, 1) == [JournalKind.ACCEPTED, JournalKind.SENT, JournalKind.DELIVERED]
    assert file.database.run("SELECT count(*) FROM message_body") == [(0,)]


def test_reopening_finds_every_entry_as_it_was(tmp_path: Path) -> None:
    file = open_client_file(tmp_path / "client.db")
    for number in range(5):
        accept(file.outbox, entry(number, lane=str(number)))
    chosen(file)
    file.outbox.apply(message(1), ReceiptAcked(), now_ms=NOW_MS)
    before: list[OutboxEntry | None] = [file.outbox.load(message(number)) for number in range(5)]
    file.database.close()
    file = open_client_file(tmp_path / "client.db")
    assert [file.outbox.load(message(number)) for number in range(5)] == before
    assert_books_balance(file)
    file.database.close()
