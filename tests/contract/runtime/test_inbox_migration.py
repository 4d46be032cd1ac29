"""A file of schema 1, with messages shown, waiting and owed, is taken over as it is."""

import os
from importlib.resources import files
from pathlib import Path

import apsw

from restante.crypto.identity import Identity
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.states import Verdict
from support.fleet.journal_files import message
from support.inbox.decrypted_messages import ALICE, SESSION, letter, receive
from support.sqlite.files import NOW_MS, open_client_file

OWNER = Identity(bytes(32))
FIRST = files("restante.runtime.sqlite").joinpath("migrations", "client", "0001_first.sql")


def old_file(path: Path) -> None:
    """0 was shown and its receipt left, 1 was shown, 3 waits for 2; receipts for 1 and 3 are owed, for 1 twice."""
    seal = StorageSeal(OWNER.storage_key)
    connection = apsw.Connection(str(path))
    connection.execute(FIRST.read_text("utf-8"))
    connection.pragma("application_id", 0x52535443)
    connection.pragma("user_version", 1)
    connection.execute("INSERT INTO incoming_session VALUES (?, ?, 2)", (ALICE, SESSION))
    for number, place in ((0, 1), (1, 2), (3, None)):
        sealed = seal.seal(b"body %d" % number, nonce=os.urandom(NONCE_BYTES), context=message(number))
        connection.execute(
            "INSERT INTO inbox (released, message_id, sender, session_id, sequence_number, kind, sealed_plaintext,"
            " received_at_ms, server_timestamp_ms) VALUES (?, ?, ?, ?, ?, 'text', ?, ?, ?)",
            (place, message(number), ALICE, SESSION, number, sealed, NOW_MS, NOW_MS),
        )
    for number in (1, 3, 1):
        connection.execute(
            "INSERT INTO owed_receipt (message_id, sender, since_ms) VALUES (?, ?, ?)", (message(number), ALICE, NOW_MS)
        )
    connection.close()


def test_what_schema_1_took_in_is_shown_acknowledged_and_continued(tmp_path: Path) -> None:
    old_file(tmp_path / "client.db")
    file = open_client_file(tmp_path / "client.db", owner=OWNER)
    shown = file.inbox.released(after=0, limit=10, now_ms=NOW_MS)
    assert [(place, entry.plaintext, entry.ack_sent) for place, entry in shown] == [
        (1, b"body 0", True),
        (2, b"body 1", False),
    ]
    assert file.inbox.next_wake_ms() == NOW_MS + 300_000
    assert set(file.inbox.take_owed(ALICE, limit=64)) == {message(1), message(3)}
    assert receive(file, letter(2)) is Verdict.NEW
    assert receive(file, letter(4)) is Verdict.NEW
    assert receive(file, letter(0)) is Verdict.REPLAY, "known by its number only"
    entries = file.inbox.released(after=2, limit=10, now_ms=NOW_MS)
    assert [(place, entry.plaintext) for place, entry in entries] == [(3, b"body 2"), (4, b"body 3"), (5, b"body 4")]
    file.database.close()


def test_an_empty_file_of_schema_1_starts_from_nothing(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "client.db"))
    connection.execute(FIRST.read_text("utf-8"))
    connection.pragma("application_id", 0x52535443)
    connection.pragma("user_version", 1)
    connection.close()
    file = open_client_file(tmp_path / "client.db", owner=OWNER)
    assert receive(file, letter(0)) is Verdict.NEW
    assert file.inbox.take_owed(ALICE, limit=64) == (message(0),)
    file.database.close()
