"""Many rows written by fewer statements leave behind what one statement for each would."""

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.runtime.sqlite.file.statement_batching import WIDTHS, Column, together

TABLE = "CREATE TABLE note (number INTEGER PRIMARY KEY, text TEXT, colour TEXT UNIQUE)"
UPDATE = "UPDATE note SET text = ?, colour = ? WHERE number = ?"
DELETE = "DELETE FROM note WHERE number = ?;"
keys = st.integers(0, 2 * WIDTHS[0])


def filled() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(TABLE)
    connection.executemany("INSERT INTO note VALUES (?, 'as it was', NULL)", [(n,) for n in range(2 * WIDTHS[0])])
    return connection


def left_by(statements: list[tuple[str, tuple[Column, ...]]]) -> list[tuple[Column, ...]]:
    connection = filled()
    for statement, values in statements:
        connection.execute(statement, values)
    return list(connection.execute("SELECT * FROM note ORDER BY number"))


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.none(), keys), max_size=3 * WIDTHS[0]))
def test_keys_that_get_the_same_values_share_a_statement_and_the_last_word_on_a_key_counts(
    rows: list[tuple[Column, ...]],
) -> None:
    assert left_by(list(together(UPDATE, rows))) == left_by([(UPDATE, row) for row in rows])


@given(st.lists(st.tuples(keys), max_size=3 * WIDTHS[0]))
def test_rows_are_deleted_together(rows: list[tuple[Column, ...]]) -> None:
    assert left_by(list(together(DELETE, rows))) == left_by([(DELETE, row) for row in rows])


@pytest.mark.parametrize("count", [1, WIDTHS[1], WIDTHS[0] + WIDTHS[1] + 1, 3 * WIDTHS[0]])
def test_new_rows_keep_their_order(count: int) -> None:
    insert = "INSERT INTO note VALUES (NULL,?,NULL)"
    rows: list[tuple[Column, ...]] = [(f"text {number}",) for number in range(count)]
    assert left_by(list(together(insert, rows))) == left_by([(insert, row) for row in rows])


def test_sixty_four_rows_take_two_statements() -> None:
    assert len(list(together(DELETE, [(number,) for number in range(64)]))) == 2
    assert len(list(together(UPDATE, [("same", None, number) for number in range(64)]))) == 2


@pytest.mark.parametrize(
    "statement",
    ["UPDATE note SET number = number + ? WHERE text = ?", "INSERT INTO note VALUES (?, ?, ?) ON CONFLICT DO NOTHING"],
)
def test_a_statement_whose_rows_depend_on_each_other_is_run_for_each(statement: str) -> None:
    rows: list[tuple[Column, ...]] = [(1, "a", "b")] * 40
    assert list(together(statement, rows)) == [(statement, row) for row in rows]
