"""Tables and lists of fields for a terminal."""

from collections.abc import Iterable
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

LEAST_WRAPPED: Final = 12


def table(
    title: str, *columns: str, rows: Iterable[Iterable[str]], right: Iterable[str] = (), dense: bool = False
) -> Group:
    """Return a table under its title. Columns named in `right` hold numbers. Only the last column may wrap.

    `dense` is for many columns: one space between them, one line a row, the last column cut at the end of the line.
    However narrow the terminal, neither the first column, which holds what other commands take as their argument, nor
    a number is cut: half a number would be another number. A column that wraps keeps room for a word.
    """
    listed = [tuple(row) for row in rows]
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0 if dense else 1))
    for place, column in enumerate(columns):
        longest = max((cell_len(row[place]) for row in listed), default=0)
        is_last = place == len(columns) - 1
        is_kept = place == 0 or column in right
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=not is_last,
            min_width=longest if is_kept else min(longest, LEAST_WRAPPED) if is_last and not dense else None,
            overflow="fold",
        )
    for *cells, last in listed:
        made.add_row(*map(escape, cells), Text(last, no_wrap=True, overflow="ellipsis") if dense else escape(last))
    return Group(Text(title, style="bold"), made, "")


def fields(title: str, rows: Iterable[tuple[str, str]]) -> Group:
    """Return one line for each property of one thing. Long values continue on the next line."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, escape(value))
    return Group(Text(title, style="bold"), made, "")
