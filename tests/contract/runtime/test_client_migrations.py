"""A client's file of an earlier schema is brought up to date with everything it holds."""

from importlib.resources import files
from pathlib import Path

import apsw
import pytest

import restante.runtime.sqlite
from journal_files import message
from outbox_entries import accept, entry
from restante.model.errors import DuplicateMessageId
from restante.model.journal import JournalKind
from restante.model.states import Confirmation, State
from restante.runtime.sqlite.integrity import check_file
from sqlite_files import NOW_MS, assert_books_balance, chosen, facts, open_client_file, states_by_rows

DAY_MS = 86_400_000
FIRST_SCHEMA = files(restante.runtime.sqlite).joinpath("migrations", "client", "0001_first.sql")
CLIENTS_FILE = 0x52535443


def make_file_of_the_first_schema(path: Path) -> None:
    """Four messages: one waits, one is at its relay, one was given up, one was delivered."""
    connection = apsw.Connection(str(path))
    connection.execute(FIRST_SCHEMA.read_text(encoding="utf-8"))
    connection.pragma("application_id", CLIENTS_FILE)
    connection.pragma("user_version", 1)
    for number, state in ((1, "pending"), (2, "sent"), (3, "dead")):
        connection.execute("INSERT INTO body VALUES (?, ?, ?)", (number, b"payload %d" % number, b"kept %d" % number))
        for kind in ("accepted", {"sent": "sent", "dead": "dead_lettered"}.get(state)):
            if kind:
                connection.execute(
                    "INSERT INTO journal (at_ms, kind, message_id) VALUES (?, ?, ?)", (NOW_MS, kind, message(number))
                )
        if state == "dead":
            connection.execute(
                """INSERT INTO dead_letter VALUES (?1, 3, 9, 'relay', 'relay-1', 'text', 1, ?2, ?2, 86400, ?3, 'E001',
                   'attempts_exhausted', 'E001', 'retriable', 'dead', 15, ?2, ?2, ?2, 0, ?2, ?3, NULL)""",
                (message(3), NOW_MS, NOW_MS + DAY_MS),
            )
        else:
            connection.execute(
                """INSERT INTO outbox VALUES (?1, ?2, ?1, 9, 'relay', 'relay-1', 'text', 1, ?3, ?3, 86400, ?4, ?5, 0,
                   ?6, NULL, NULL, NULL, NULL, NULL, NULL, ?7, 0, 0, ?8, ?4)""",
                (
                    number,
                    message(number),
                    NOW_MS,
                    NOW_MS + DAY_MS,
                    NOW_MS if state == "pending" else NOW_MS + DAY_MS,
                    state,
                    state == "sent",
                    1 if state == "pending" else None,
                ),
            )
    connection.execute("INSERT INTO sent_index VALUES (?, 'text', 1, 2, ?)", (message(4), NOW_MS))
    for kind in ("accepted", "delivered"):
        connection.execute("INSERT INTO journal (at_ms, kind, message_id) VALUES (?, ?, ?)", (NOW_MS, kind, message(4)))
    connection.close()


def test_everything_in_a_file_of_the_first_schema_is_there_after_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "client.db"
    make_file_of_the_first_schema(path)
    file = open_client_file(path)
    assert [check.findings for check in check_file(file.database) if check.findings] == []
    assert_books_balance(file)
    assert states_by_rows(file.database) == {
        message(1): State.PENDING,
        message(2): State.SENT,
        message(3): State.DEAD,
    }
    letter = file.outbox.dead_letters.load(message(3))
    assert letter is not None
    assert file.outbox.dead_letters.payload(letter) == b"payload 3"
    waiting = file.outbox.load(message(1))
    assert waiting is not None
    assert (waiting.payload, waiting.sealed_plaintext) == (b"payload 1", b"kept 1")
    assert file.outbox.sent.confirmation(message(4)) is Confirmation.RECEIVED
    with pytest.raises(DuplicateMessageId):
        accept(file.outbox, entry(4))
    assert chosen(file) == message(1)
    assert [fact.kind for fact in facts(file.journal)][-1] is JournalKind.ATTEMPTED
    file.database.close()
