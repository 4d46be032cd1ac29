"""A file that is only looked into: not created, not changed, and seen as of one moment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.model.errors import StoreUnusable
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.testing.deterministic import SeededEntropy
from support.fleet.journal_files import message
from support.outbox.entries import accept, entry
from support.sqlite.files import ClientFile, open_client_file


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ClientFile]:
    made = open_client_file(tmp_path / "client.db")
    accept(made.outbox, entry(1))
    yield made
    made.database.close()


def look(path: Path) -> Database:
    return Database(path, schema="client", read_only=True)


def test_a_file_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        look(tmp_path / "home" / "client.db")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_clients_and_stays_empty(tmp_path: Path) -> None:
    (tmp_path / "client.db").touch()
    with pytest.raises(StoreUnusable, match="not a client's file"):
        look(tmp_path / "client.db")
    assert (tmp_path / "client.db").stat().st_size == 0


def test_nothing_can_be_written(file: ClientFile) -> None:
    reader = look(file.database.path)
    with pytest.raises(StoreUnusable):
        reader.run("DELETE FROM outbox")
    reader.close()
    assert file.outbox.load(message(1)) is not None


def test_a_transaction_sees_one_moment_and_does_not_hold_up_a_writer(file: ClientFile) -> None:
    reader = look(file.database.path)
    with reader.transaction():
        assert reader.run("SELECT count(*) FROM entry") == [(1,)]
        accept(file.outbox, entry(2))
        assert reader.run("SELECT count(*) FROM entry") == [(1,)]
    assert reader.run("SELECT count(*) FROM entry") == [(2,)]
    reader.close()


def test_the_journal_has_the_same_writer_and_tells_each_messages_facts(file: ClientFile) -> None:
    accept(file.outbox, entry(2))
    reader = look(file.database.path)
    journal = Journal(reader, SeededEntropy(9))
    assert journal.writer == file.journal.writer
    assert journal.history(message(2)) == file.journal.events(after=1, limit=10)
    assert journal.history(message(3)) == []
    reader.close()


def test_a_journal_that_never_had_a_writer_gets_none_by_being_looked_at(tmp_path: Path) -> None:
    Database(tmp_path / "client.db", schema="client").close()
    reader = look(tmp_path / "client.db")
    assert Journal(reader, SeededEntropy(1)).history(message(1)) == []
    assert reader.run("SELECT count(*) FROM meta") == [(0,)]
    reader.close()


def test_opening_a_file_that_is_up_to_date_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "client.db"
    open_client_file(path).database.close()
    before = path.read_bytes()
    open_client_file(path).database.close()
    assert path.read_bytes() == before
