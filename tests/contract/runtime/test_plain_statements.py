"""Statements that run for each row do only that row's work."""

from pathlib import Path

import pytest

from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import insert_statement
from restante.runtime.sqlite.outbox.row_codec import ENTRY_COLUMNS
from restante.wire.journal_schema import COLUMNS

OUTBOX = load_queries("outbox/store", entry=ENTRY_COLUMNS)
FOR_EACH_ROW = {
    **{
        name: OUTBOX[name]
        for name in ("add_body", "add_entry", "store_state", "store_lane", "remove_entry", "remove_body")
    },
    "ended": load_queries("outbox/delivered_index")["add"],
    "journal": insert_statement(*COLUMNS[2:]),
}


@pytest.mark.parametrize("name", FOR_EACH_ROW)
def test_a_statement_of_the_hot_path_builds_no_table_of_its_own(tmp_path: Path, name: str) -> None:
    statement = FOR_EACH_ROW[name]
    database = Database(tmp_path / "client.db", schema="client")
    steps = database.rows(f"EXPLAIN {statement}", *[None] * statement.count("?"))
    operations = {step[1] for step in steps}
    assert "Insert" in operations or "Delete" in operations or "IdxInsert" in operations
    assert not {"OpenEphemeral", "OpenAutoindex", "SorterOpen"} & operations
    database.close()


def test_the_order_in_a_lane_is_read_from_an_index(tmp_path: Path) -> None:
    database = Database(tmp_path / "client.db", schema="client")
    for name, values in (("unsent", (1, 1)), ("run", (1, 1, 1, 1)), ("waiting_in_lane", (1, 1))):
        plan = " ".join(row[3] for row in database.rows(f"EXPLAIN QUERY PLAN {OUTBOX[name]}", *values))
        assert "outbox_unsent" in plan, plan
        assert "TEMP B-TREE" not in plan, plan
    database.close()


def test_statements_are_kept_without_comments_and_layout() -> None:
    for statement in OUTBOX.values():
        assert "--" not in statement
        assert "\n" not in statement
        assert "  " not in statement
