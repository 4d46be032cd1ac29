"""Statements that are run for each row do only that row's work."""

from pathlib import Path

import pytest

from restante.runtime.sqlite.file.database import Database, load_queries

FOR_EACH_ROW = [
    ("outbox", "add_body"),
    ("outbox", "journal_arrivals"),
    ("outbox", "file_arrivals"),
    ("outbox", "store_state"),
    ("outbox", "remove_entry"),
    ("outbox", "remove_body"),
    ("journal", "append_fact"),
    ("journal", "append_step_fact"),
    ("sent_index", "remember_sent"),
]


@pytest.mark.parametrize(("file", "name"), FOR_EACH_ROW)
def test_a_statement_of_the_hot_path_builds_no_table_of_its_own(tmp_path: Path, file: str, name: str) -> None:
    statement = load_queries(file)[name]
    database = Database(tmp_path / "client.db", schema="client")
    values = 2 if "?2" in statement else statement.count("?")
    steps = database.rows(f"EXPLAIN {statement}", *[None] * values)
    operations = {step[1] for step in steps}
    assert "Insert" in operations or "Delete" in operations or "IdxDelete" in operations
    assert not {"OpenEphemeral", "OpenAutoindex"} & operations
    assert ("SorterOpen" in operations) == ("ORDER BY" in statement)  # once for all rows, where an order is asked for
    database.close()


def test_statements_are_kept_without_comments_and_layout() -> None:
    for statement in load_queries("outbox").values():
        assert "--" not in statement
        assert "\n" not in statement
        assert "  " not in statement
