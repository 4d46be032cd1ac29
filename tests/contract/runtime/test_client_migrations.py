"""A client's file of an earlier schema is brought up to date with everything it holds."""

from importlib.resources import files
from pathlib import Path

import apsw
import pytest

import restante.runtime.sqlite
from restante.core.outbox_events import ReceiptAcked
from restante.model.errors import DuplicateMessageId
from restante.model.journal import JournalKind
from restante.model.states import Confirmation, State
from restante.runtime.sqlite.file.integrity import check_file
from support.fleet.journal_files import message
from support.outbox.entries import accept, entry
from support.sqlite.files import NOW_MS, assert_books_balance, chosen, facts, open_client_file, states_by_rows

DAY_MS = 86_400_000
MIGRATIONS = files(restante.runtime.sqlite).joinpath("migrations", "client")
FIRST_SCHEMA = MIGRATIONS.joinpath("0001_first.sql")
CLIENTS_FILE = 0x52535443
TAG = b"session tag here"


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


def empty_file(path: Path, *, schema: int) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    for step in sorted(MIGRATIONS.iterdir(), key=lambda step: step.name)[:schema]:
        connection.execute(step.read_text(encoding="utf-8"))
    connection.pragma("application_id", CLIENTS_FILE)
    connection.pragma("user_version", schema)
    return connection


def make_file_of_the_eighth_schema(path: Path) -> None:
    """A message that was filed and two that were not, with another's fact between theirs."""
    connection = empty_file(path, schema=8)
    for number in (1, 2, 4):
        connection.execute(
            "INSERT INTO body VALUES (?1, ?2, 9, 'mesh', 'lane', 'text', 1, ?3, 86400, ?3, ?4, ?3, ?4, ?5, ?6)",
            (number, message(number), NOW_MS, NOW_MS + DAY_MS, b"payload %d" % number, b"kept"),
        )
        connection.execute(
            "INSERT INTO journal VALUES (?, ?, 'accepted', ?, ?, ?, ?, 9, 'text', 1, NULL, NULL, NULL, NULL, 86400)",
            (number, NOW_MS + number, message(number), TAG, number, bytes(32)),
        )
    connection.execute(
        """INSERT INTO outbox VALUES (1, ?1, 1, 9, 'mesh', 'lane', 'text', 1, ?2, 86400, ?2, ?3, ?2, 0, 'pending', NULL,
           NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 1, ?3)""",
        (message(1), NOW_MS, NOW_MS + DAY_MS),
    )
    connection.execute("UPDATE outbox_total SET entries = 1, bytes = 9, filed_through = 1")
    connection.execute("INSERT INTO journal (number, at_ms, kind) VALUES (3, ?, 'security')", (NOW_MS + 3,))
    connection.close()


def test_facts_of_messages_that_were_not_filed_are_told_once_and_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "client.db"
    make_file_of_the_eighth_schema(path)
    file = open_client_file(path)
    for _ in range(2):  # before they are filed, and after
        told = file.journal.columns(after=0, limit=10)
        assert told[0] == (1, 2, 3, 4)
        assert told[1] == (NOW_MS + 1, NOW_MS + 2, NOW_MS + 3, NOW_MS + 4)
        assert told[2] == ("accepted", "accepted", "security", "accepted")
        assert told[3] == (message(1), message(2), None, message(4))
        assert told[4:7] == [(TAG, TAG, None, TAG), (1, 2, None, 4), (bytes(32), bytes(32), None, bytes(32))]
        assert told[7:10] == [(9, 9, None, 9), ("text", "text", None, "text"), (1, 1, None, 1)]
        assert told[14] == (86_400, 86_400, None, 86_400)
        assert file.journal.last_number() == 4
        file.outbox.sweep(now_ms=NOW_MS)
    assert [check.findings for check in check_file(file.database) if check.findings] == []
    file.database.close()


def make_file_of_the_ninth_schema(path: Path) -> None:
    """One message is at its next hop, one is being sent, one waits behind it, and one is not filed yet."""
    connection = empty_file(path, schema=9)
    for number in range(1, 5):
        connection.execute(
            """INSERT INTO body VALUES (?1, ?2, 9, 'relay', 'relay-1', 'text', 1, ?3, 86400, ?3, ?4, ?3, ?4, NULL, NULL,
               NULL, ?5, x'')""",
            (number, message(number), NOW_MS, NOW_MS + DAY_MS, b"payload %d" % number),
        )
    for number, state, owner, was_sent in ((1, "sent", None, 1), (2, "sending", "me", 0), (3, "pending", None, 0)):
        connection.execute(
            """INSERT INTO outbox VALUES (?1, ?2, ?1, 9, 'relay', 'relay-1', 'text', 1, ?3, 86400, ?3, ?4, ?3, 1, ?5,
               ?6, ?7, 'E001', ?3, ?3, NULL, ?8, 0, 0, NULL, ?4)""",
            (number, message(number), NOW_MS, NOW_MS + DAY_MS, state, owner, owner and NOW_MS + 30_000, was_sent),
        )
    told = ("accepted", 1), ("accepted", 2), ("accepted", 3), ("attempted", 1), ("sent", 1), ("attempted", 2)
    for number, (kind, about) in zip((1, 2, 3, 5, 6, 7), told, strict=True):
        connection.execute(
            "INSERT INTO journal (number, at_ms, kind, message_id) VALUES (?, ?, ?, ?)",
            (number, NOW_MS, kind, message(about)),
        )
    connection.execute("UPDATE outbox_total SET entries = 3, bytes = 27, filed_through = 3")
    connection.execute("INSERT INTO lane_total VALUES ('relay', 'relay-1', 1)")
    connection.close()


def entries_in(path: Path) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    rows: list[tuple[object, ...]] = connection.execute("SELECT * FROM entry ORDER BY insertion").fetchall()
    connection.close()
    return rows


def test_entries_are_the_same_and_found_by_their_ids_once_these_are_indexed_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "client.db"
    make_file_of_the_ninth_schema(path)
    before = entries_in(path)
    assert len(before) == 4
    file = open_client_file(path)
    assert entries_in(path) == before
    assert [check.findings for check in check_file(file.database) if check.findings] == []
    for number in (1, 2, 3, 4):
        found = file.outbox.load(message(number))
        assert found is not None
        assert (found.insertion, found.payload) == (number, b"payload %d" % number)
        with pytest.raises(DuplicateMessageId):
            accept(file.outbox, entry(number))
    file.outbox.apply(message(2), ReceiptAcked(), now_ms=NOW_MS)
    assert chosen(file) == message(3)
    assert_books_balance(file)
    file.database.close()
