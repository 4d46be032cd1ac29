"""When an arrival gets its place among the entries, and that nobody can tell by what they see."""

from pathlib import Path
from typing import Any

import pytest

from restante.model.journal import JournalKind
from restante.model.kinds import Priority
from restante.model.states import Route, State
from restante.runtime.sqlite.outbox import totals
from support.fleet.journal_files import message
from support.outbox.entries import accept, entry
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, ClientFile, assert_books_balance, chosen, open_client_file

MINUTE_MS = 60_000


@clause("1.4")
def test_a_fact_is_told_once_in_its_place_before_during_and_after_filing(tmp_path: Path) -> None:
    file = open_client_file(tmp_path / "client.db")

    def told() -> list[tuple[int, str]]:
        numbers, _, kinds, *_ = file.journal.columns(after=0, limit=100)
        return list(zip(numbers, kinds, strict=True))

    accept(file.outbox, entry(1))
    with file.database.transaction():
        file.journal.append(JournalKind.SECURITY, at_ms=NOW_MS)
    accept(file.outbox, entry(2))
    expected = [(1, "accepted"), (2, "security"), (3, "accepted")]
    assert told() == expected
    with file.database.transaction():
        file.outbox.sweep(now_ms=NOW_MS)
        assert told() == expected
        assert file.outbox.counts() == {State.PENDING: 2}
        accept(file.outbox, entry(3))
        assert told() == [*expected, (4, "accepted")]
    assert told() == [*expected, (4, "accepted")]
    assert file.journal.last_number() == 4
    file.database.close()


@pytest.fixture
def late_filing(file: ClientFile, monkeypatch: pytest.MonkeyPatch) -> ClientFile:
    """Two entries that are filed, beside which up to two arrivals may stay unfiled."""
    monkeypatch.setattr(totals, "FILED_TO_ARRIVED", 1)
    for number in (1, 2):
        accept(file.outbox, entry(number, route=Route.MESH))
    assert chosen(file, now_ms=NOW_MS) == message(1)
    assert unfiled(file) == 0
    return file


def unfiled(file: ClientFile) -> int:
    [(count,)] = file.database.run("SELECT count(*) FROM body WHERE body_id > (SELECT filed_through FROM outbox_total)")
    return int(count)


def test_an_arrival_that_concerns_nobody_stays_unfiled_beside_many_and_is_in_its_place_when_it_does(
    late_filing: ClientFile,
) -> None:
    accept(late_filing.outbox, entry(3, route=Route.MESH))
    assert chosen(late_filing, now_ms=NOW_MS) == message(2)
    assert unfiled(late_filing) == 1
    assert chosen(late_filing, now_ms=NOW_MS) == message(3)
    assert unfiled(late_filing) == 0
    assert_books_balance(late_filing)


@pytest.mark.parametrize(
    "sooner", [{"priority": Priority.HIGH}, {"created_at_ms": NOW_MS - 1}], ids=["higher", "older"]
)
def test_an_arrival_that_goes_before_those_that_are_filed_is_filed_at_once(
    late_filing: ClientFile, sooner: dict[str, Any]
) -> None:
    accept(late_filing.outbox, entry(3, route=Route.MESH, **sooner))
    assert chosen(late_filing, now_ms=NOW_MS) == message(3)
    assert chosen(late_filing, now_ms=NOW_MS) == message(2)


def test_an_arrival_that_expires_unfiled_is_swept_as_any_other(late_filing: ClientFile) -> None:
    accept(late_filing.outbox, entry(3, route=Route.MESH, ttl_s=60, expires_at_ms=NOW_MS + MINUTE_MS))
    late_filing.outbox.sweep(now_ms=NOW_MS + MINUTE_MS - 1)
    assert unfiled(late_filing) == 1
    late_filing.outbox.sweep(now_ms=NOW_MS + MINUTE_MS)
    assert unfiled(late_filing) == 0
    assert late_filing.outbox.load(message(3)) is None
