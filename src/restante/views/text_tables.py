"""Tables and lists of fields for a terminal."""

from collections.abc import Iterable
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

LEAST_WRAPPED: Final = 12  # cells: room for a word in a column that wraps
LEAST_CUT: Final = 4  # cells of a text that is cut


def table(
    title: str,
    *columns: str,
    rows: Iterable[Iterable[str]],
    right: Iterable[str] = (),
    dense: bool = False,
    whole: bool = False,
) -> Group:
    """Return a table under its title. Columns named in `right` hold numbers. Only the last column may wrap.

    `dense` is for many columns: one space between them, one line a row, the last column cut at the end of the line.
    `whole` is for ids and values in any column: none of them is cut.
    However narrow the terminal, neither the first column, which holds what other commands take as their argument, nor
    a number is cut: half a number would be another number.
    """
    listed = [tuple(row) for row in rows]
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0 if dense else 1))
    least_cells = (1 if dense else 3) * (len(columns) - 1)
    for place, column in enumerate(columns):
        is_last = place == len(columns) - 1
        longest = max((cell_len(row[place]) for row in listed), default=0)
        is_kept = whole or place == 0 or column in right
        least = longest if is_kept else min(longest, LEAST_WRAPPED if is_last and not dense else LEAST_CUT)
        least_cells += least
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=not is_last or is_kept,
            min_width=least,
            overflow="fold",
        )
    for *cells, last in listed:
        made.add_row(*map(escape, cells), Text(last, no_wrap=True, overflow="ellipsis") if dense else escape(last))
    return Group(Text(title, style="bold"), _AtLeast(made, least_cells), "")


class _AtLeast:
    """A table that takes so many cells even where the terminal has fewer: rich would drop columns."""

    def __init__(self, made: Table, cells: int) -> None:
        self._made = made
        self._cells = cells

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self._made, options.update(max_width=max(options.max_width, self._cells)))


def fields(title: str, rows: Iterable[tuple[str, str]]) -> Group:
    """Return one line for each property of one thing. Long values continue on the next line."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, escape(value))
    return Group(Text(title, style="bold"), made, "")
