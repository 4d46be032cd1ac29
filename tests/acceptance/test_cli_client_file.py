"""Which files the operator's commands take, that looking changes none, and what a check finds in a bad one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from restante.runtime.system import SystemClock
from support.cli.outbox_commands import CHANGING_ONE, READING, READING_ONE, REPORTING_FAILURES, Operator
from support.cli.populated_client_file import fill, message_id, short, shown
from support.spec.clauses import clause
from support.sqlite.files import open_client_file, open_node_file


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    made = Operator(tmp_path)
    fill(made.path, now_ms=SystemClock().now_ms())
    return made


@pytest.mark.parametrize("command", READING)
def test_looking_changes_no_byte_and_leaves_no_file(operator: Operator, command: str) -> None:
    before = operator.files()
    operator.run(command, status=3 if command in REPORTING_FAILURES else 0)
    assert operator.files() == before


def test_what_a_killed_program_left_beside_its_file_is_read_and_left_there(operator: Operator) -> None:
    code = (
        "import os, sys; from pathlib import Path; from support.sqlite.files import open_client_file;"
        "from support.outbox.entries import accept, entry; file = open_client_file(Path('mail.db'));"
        "accept(file.outbox, entry(7)); os._exit(9)"
    )
    tests = str(Path(__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", code], cwd=operator.directory, env=operator.env | {"PYTHONPATH": tests}, check=False
    )
    before = operator.files()
    assert len(before["mail.db-wal"]) > 0
    assert operator.json("outbox list")["total"] == 6
    after = operator.files()
    assert (after["mail.db"], after["mail.db-wal"]) == (before["mail.db"], before["mail.db-wal"])


def test_a_file_in_use_can_be_looked_into_and_changed(operator: Operator) -> None:
    file = open_client_file(operator.path)
    operator.run("outbox cancel --yes", short("sent"))
    letter = file.outbox.dead_letters.load(message_id("sent"))
    assert letter is not None
    assert letter.reason == "cancelled"
    file.database.close()


def test_a_client_is_named_by_its_directory_as_in_every_other_command(operator: Operator) -> None:
    by_file = operator.json("outbox list")["total"]
    home = operator.directory / "home"
    home.mkdir()
    operator.path.rename(home / "client.db")
    assert operator.json("outbox list --home home")["total"] == by_file
    refused = operator.run("outbox list --home .", status=1)
    assert refused.stderr.startswith("error E109: . is no client's directory and no database file")


def test_without_a_file_each_command_says_how_to_name_one(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    del operator.env["RESTANTE_FILE"]
    for command in (*READING, *(f"{one} 62a2fed3" for one in (*READING_ONE, *CHANGING_ONE))):
        done = operator.run(command, status=2)
        assert done.stderr.startswith("error E107: no client given: add --home DIR or --file PATH")


@pytest.mark.parametrize(
    "command", ["outbox list", "outbox check", "dlq history 62a2fed3", "outbox cancel --yes 62a2fed3"]
)
def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, command: str) -> None:
    operator = Operator(tmp_path)
    done = operator.run(command, status=1)
    assert done.stderr.startswith("error E109: there is no file mail.db")
    assert operator.files() == {}


def test_the_option_wins_over_the_variable(operator: Operator) -> None:
    assert "no file other.db" in operator.run("outbox list --file other.db", status=1).stderr


@pytest.mark.parametrize(
    "command", ["outbox list", "outbox check", "dlq history 62a2fed3", "outbox cancel --yes 62a2fed3"]
)
@pytest.mark.parametrize("content", [b"", b"this is no database at all\n" * 100], ids=["empty", "text"])
def test_a_file_of_another_kind_is_left_as_it_is(tmp_path: Path, command: str, content: bytes) -> None:
    operator = Operator(tmp_path)
    operator.path.write_bytes(content)
    assert operator.run(command, status=1).stderr.startswith("error E106: mail.db is ")
    assert operator.files() == {"mail.db": content}


def test_a_nodes_file_is_not_taken_for_a_clients(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    open_node_file(operator.path).database.close()
    assert "not a client's file" in operator.run("outbox list", status=1).stderr


@pytest.mark.parametrize("command", ["outbox list", "outbox check", "outbox cancel --yes 62a2fed3"])
def test_a_newer_schema_is_refused_and_kept(operator: Operator, command: str) -> None:
    operator.sql("PRAGMA user_version = 99")
    before = operator.files()
    done = operator.run(command, status=1)
    assert done.stderr.startswith("error E106: mail.db has schema 99")
    assert "open it with the version that made it" in done.stderr
    assert operator.files() == before


def test_an_older_schema_is_not_read_but_explained(operator: Operator) -> None:
    operator.sql("PRAGMA user_version = 0")
    done = operator.run("outbox list", status=1)
    assert done.stderr.startswith("error E106: mail.db has schema 0")
    assert "open it with the version that made it" in done.stderr


def damage(operator: Operator, page: int) -> None:
    """Overwrite the middle of one page."""
    with operator.path.open("r+b") as file:
        file.seek((page - 1) * 4096 + 8)
        file.write(b"\xa5" * 64)


def test_damage_inside_the_file_is_told_without_a_traceback(operator: Operator) -> None:
    [(page,)] = operator.sql("SELECT rootpage FROM sqlite_schema WHERE name = 'outbox'")
    damage(operator, page)
    done = operator.run("outbox check", status=1)
    assert re.search(r"the file is whole +\d+ finding", done.stdout)
    assert "restore a backup" in done.stdout
    assert operator.run("outbox list", status=1).stderr.startswith("error E106: mail.db ")


def test_damage_of_the_first_page_is_told_without_a_traceback(operator: Operator) -> None:
    with operator.path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * 200)
    for command in ("outbox check", "outbox list"):
        assert operator.run(command, status=1).stderr.startswith("error E106: mail.db is damaged")


def test_a_missing_table_is_told_without_a_traceback(operator: Operator) -> None:
    operator.sql("DROP TABLE delivered_index")
    assert operator.run("outbox stats", status=1).stderr.startswith("error E106: mail.db is damaged or incomplete")


def test_a_value_no_version_knows_is_told_and_check_names_it(operator: Operator) -> None:
    operator.sql("UPDATE outbox SET kind = 'telegram' WHERE state = 'sent'")
    done = operator.run("outbox list", status=1)
    assert done.stderr.startswith("error E106: mail.db holds a row that cannot be read")
    assert "restante outbox check" in done.stderr
    assert "kind 'telegram' is unknown to this version" in operator.run("outbox check", status=1).stdout


@clause("1.4")
@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        (
            "UPDATE lane SET entries = 9 WHERE name = 'relay-1'",
            "upstream lane 'relay-1' counts 9 messages and 45 bytes, but there are 2 messages and 45 bytes",
        ),
        (
            "UPDATE lane SET bytes = 7 WHERE name = 'overdue'",
            "mesh lane 'overdue' counts 1 messages and 7 bytes, but there are 1 messages and 23 bytes",
        ),
        (
            "UPDATE lane SET dead = 0 WHERE name = 'overdue'",
            "mesh lane 'overdue' counts 0 retriable dead letters, but there are 1",
        ),
        (
            "UPDATE lane SET first_place = 7 WHERE name = 'relay-1'",
            "upstream lane 'relay-1' begins at place 7, but its oldest unsent message is at",
        ),
        ("DELETE FROM lane WHERE name = 'relay-1'", f"the lane of message {shown('behind')} is not there"),
        (
            "DELETE FROM message_body WHERE payload = CAST('sealed bytes of sent' AS BLOB)",
            f"message {shown('sent')} waits in the outbox, but its payload is not there",
        ),
        (
            "DELETE FROM message_body WHERE payload = CAST('sealed bytes of overdue' AS BLOB)",
            f"message {shown('overdue')} is a dead letter, but its payload is not there",
        ),
        (
            (
                "UPDATE message_body SET payload = x'00', sealed_plaintext = x''"
                " WHERE payload = CAST('sealed bytes of overdue' AS BLOB)"
            ),
            f"message {shown('overdue')} has a payload of 1 bytes, but was accepted with 23",
        ),
        ("INSERT INTO message_body VALUES (0, x'00', x'00')", "payload 0 belongs to no message"),
        (
            "INSERT INTO channel_progress VALUES (zeroblob(16), 1, 0, 0, 0, NULL, 0)",
            "the file says how far message 00000000-0000-0000-0000-000000000000 was sent to its chat",
        ),
        ("DELETE FROM journal WHERE number IN (3, 4)", "journal events 3 to 4 are missing"),
        ("DELETE FROM journal WHERE number = 1", "journal event 1 is missing"),
        ("DELETE FROM journal WHERE number = (SELECT max(number) FROM journal)", "is missing"),
        ("DELETE FROM journal WHERE number >= (SELECT max(body_id) FROM message_body)", "missing"),
        (
            "DELETE FROM outbox WHERE state = 'sent'",
            f"message {shown('sent')}: the journal says sent, but it has no row",
        ),
        (
            "DELETE FROM dead_letter WHERE reason = 'queue_time_exceeded'",
            f"message {shown('overdue')}: the journal says dead, but it has no row",
        ),
        (
            "DELETE FROM journal WHERE message_id = (SELECT message_id FROM outbox WHERE state = 'sent')",
            f"message {shown('sent')}: the journal has no event of it, but its row says sent",
        ),
        (
            "DELETE FROM journal WHERE message_id = (SELECT message_id FROM delivered_index WHERE confirmation = 3)",
            f"message {shown('read')} counts as delivered or evicted, but no journal event says so",
        ),
        ("UPDATE outbox SET state = 'sent' WHERE state = 'sending'", "the journal says sending, but its row says sent"),
        (
            "INSERT INTO delivered_index SELECT message_id, kind, 1, 'delivered', 2, 0 FROM outbox WHERE times_stored",
            f"message {shown('sent')} is in two states at once",
        ),
        (
            "UPDATE outbox SET message_id = d.message_id FROM dead_letter d WHERE code = 'E006' AND times_stored",
            f"message {shown('permanent')} is in two states at once",
        ),
    ],
)
def test_the_check_finds_each_kind_of_breach_and_says_it_in_words(
    operator: Operator, statement: str, finding: str
) -> None:
    operator.sql(statement)
    before = operator.files()
    data = operator.json("outbox check", status=1)
    assert data["sound"] is False
    assert [text for check in data["checks"] for text in check["findings"] if finding in text]
    assert operator.files() == before


def test_the_check_prints_its_findings_under_its_table_within_eighty_columns(operator: Operator) -> None:
    operator.sql("UPDATE lane SET entries = 9 WHERE name = 'relay-1'")
    output = operator.run("outbox check", status=1).stdout
    assert re.search(r"^the file is whole +ok", output, re.MULTILINE)
    assert re.search(r"^totals equal a recount +1 finding", output, re.MULTILINE)
    assert "• upstream lane 'relay-1' counts 9 messages and 45 bytes, but there are 2 messages" in " ".join(
        output.split()
    )
    assert max(map(len, output.splitlines())) <= 80


def test_many_findings_of_a_kind_are_cut_for_people_but_not_in_json(operator: Operator) -> None:
    operator.sql("DELETE FROM journal WHERE number % 2 = 0")
    data = operator.json("outbox check", status=1)
    [holes] = [one["findings"] for one in data["checks"] if "gaps" in one["check"]]
    output = operator.run("outbox check", status=1).stdout
    assert len(holes) > 20
    assert output.count("• journal event ") == 20
    assert f"{len(holes) - 20} more of this kind" in output


def test_a_change_that_cannot_be_committed_changes_nothing(operator: Operator) -> None:
    operator.sql("CREATE TRIGGER broken BEFORE INSERT ON journal BEGIN SELECT raise(ABORT, 'no more facts'); END")
    before = operator.files()
    for command, name in (("outbox cancel --yes", "sent"), ("dlq recover", "overdue"), ("dlq delete --yes", "overdue")):
        done = operator.run(command, short(name), status=1)
        assert done.stderr.startswith("error E106: ")
    assert operator.files() == before
