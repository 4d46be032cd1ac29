"""What was delivered is found at once, long before it is indexed with others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.core.outbox_events import ReadAcked, ReceiptAcked
from restante.model.errors import DuplicateMessageId
from restante.model.states import Confirmation
from restante.runtime.sqlite.outbox.delivered_index import INDEX_AT, KEPT_MS
from support.fleet.journal_files import message
from support.outbox.entries import accept, entry
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, ClientFile, open_client_file


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ClientFile]:
    made = open_client_file(tmp_path / "client.db")
    yield made
    made.database.close()


def deliver(file: ClientFile, *numbers: int) -> None:
    with file.database.transaction():
        for number in numbers:
            file.outbox.sent.remember(entry(number).but(confirmation=Confirmation.RECEIVED), now_ms=NOW_MS)


def held(file: ClientFile) -> tuple[int, ...]:
    """How many are indexed, how many wait for it, and how many a reader sees."""
    [counts] = file.database.run(
        "SELECT (SELECT count(*) FROM sent_index), (SELECT count(*) FROM sent_recent), count(*) FROM delivered"
    )
    return counts


@clause("3.13")
def test_a_delivery_is_known_before_and_after_it_is_indexed(file: ClientFile) -> None:
    deliver(file, *range(INDEX_AT - 1))
    assert held(file) == (0, INDEX_AT - 1, INDEX_AT - 1)
    assert_known(file, 7)
    deliver(file, INDEX_AT)
    assert held(file) == (INDEX_AT, 0, INDEX_AT)
    assert_known(file, 7)
    deliver(file, INDEX_AT + 1)
    assert held(file) == (INDEX_AT, 1, INDEX_AT + 1)
    assert_known(file, INDEX_AT + 1)


def assert_known(file: ClientFile, number: int) -> None:
    assert file.outbox.sent.confirmation(message(number)) is Confirmation.RECEIVED
    with pytest.raises(DuplicateMessageId):
        accept(file.outbox, entry(number))


def test_a_read_is_told_once_of_a_delivery_that_was_not_indexed_yet(file: ClientFile) -> None:
    accept(file.outbox, entry(1))
    file.outbox.apply(message(1), ReceiptAcked(), now_ms=NOW_MS)
    assert held(file) == (0, 1, 1)
    file.outbox.take_changes()
    for _ in range(2):
        file.outbox.apply(message(1), ReadAcked(), now_ms=NOW_MS)
        assert file.outbox.sent.confirmation(message(1)) is Confirmation.READ
    assert len(file.outbox.take_changes()) == 1


def test_a_delivery_that_another_process_wrote_down_is_known(file: ClientFile) -> None:
    deliver(file, 1)
    other = open_client_file(file.database.path, seed=2)
    deliver(other, 2)
    with pytest.raises(DuplicateMessageId):
        accept(file.outbox, entry(2))
    with pytest.raises(DuplicateMessageId):
        accept(other.outbox, entry(1))
    other.database.close()


def test_a_delivery_that_was_undone_is_not_known(file: ClientFile) -> None:
    file.database.begin()
    file.outbox.sent.remember(entry(1), now_ms=NOW_MS)
    file.database.roll_back()
    accept(file.outbox, entry(1))
    assert file.outbox.sent.confirmation(message(1)) is None


@clause("3.13")
def test_deliveries_are_forgotten_after_thirty_days_indexed_or_not(file: ClientFile) -> None:
    deliver(file, *range(INDEX_AT + 1))
    file.outbox.tidy(now_ms=NOW_MS + KEPT_MS - 1)
    assert held(file)[-1] == INDEX_AT + 1
    file.outbox.tidy(now_ms=NOW_MS + KEPT_MS)
    assert held(file)[-1] == 0
