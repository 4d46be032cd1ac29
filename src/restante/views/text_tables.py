"""Plain tables and lists of fields for a terminal."""

from collections.abc import Iterable

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text


def table(
    title: str, *columns: str, rows: Iterable[Iterable[str]], right: Iterable[str] = (), dense: bool = False
) -> Group:
    """A plain table under its title; columns named in `right` hold numbers. Only the last column may wrap.

    `dense` is for many columns: one space between them, one line a row, the last column cut where the line ends.
    """
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0 if dense else 1))
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=column != columns[-1],
            overflow="fold",
        )
    for row in rows:
        *cells, last = row
        made.add_row(*map(escape, cells), Text(last, no_wrap=True, overflow="ellipsis") if dense else escape(last))
    return Group(Text(title, style="bold"), made, "")


def fields(title: str, rows: Iterable[tuple[str, str]]) -> Group:
    """One thing, a line for each of its properties; long values go on below themselves."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, escape(value))
    return Group(Text(title, style="bold"), made, "")
