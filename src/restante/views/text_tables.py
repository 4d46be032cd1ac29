"""Tables and lists of fields for a terminal."""

from collections.abc import Iterable

from rich import box
from rich.cells import cell_len
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text


def table(
    title: str, *columns: str, rows: Iterable[Iterable[str]], right: Iterable[str] = (), dense: bool = False
) -> Group:
    """Return a table under its title. Columns named in `right` hold numbers. Only the last column may wrap.

    `dense` is for many columns: one space between them, one line a row, the last column cut at the end of the line.
    The first column is never cut, however narrow the terminal: it holds what other commands take as their argument.
    """
    listed = [tuple(row) for row in rows]
    first = max((cell_len(row[0]) for row in listed), default=0)
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0 if dense else 1))
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=column != columns[-1],
            min_width=first if column == columns[0] else None,
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
