"""Tables and lists of fields for a terminal. Names and texts of others cannot control it."""

from collections.abc import Iterable
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from restante.views.formatting import safe_text

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
    a number is cut: half a number would be another number. No column is left out.
    """
    listed = [tuple(map(safe_text, row)) for row in rows]
    last = len(columns) - 1
    kept = [whole or place == 0 or column in right for place, column in enumerate(columns)]
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0 if dense else 1))
    natural, least = [], []
    for place, column in enumerate(columns):
        word = max(map(cell_len, column.split()), default=0)
        longest = max(word, *(cell_len(row[place]) for row in listed), 0)
        wanted = LEAST_WRAPPED if place == last and not dense else LEAST_CUT
        natural.append(max(longest, cell_len(column)))
        least.append(longest if kept[place] else max(word, min(longest, wanted)))
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in listed:
        made.add_row(
            *(
                escape(cell) if kept[place] or (place == last and not dense) else _cut(cell)
                for place, cell in enumerate(row)
            )
        )
    return Group(Text(title, style="bold"), _Fitted(made, natural, least, gap_cells=1 if dense else 3), "")


def _cut(cell: str) -> Text:
    return Text(cell, no_wrap=True, overflow="ellipsis")


class _Fitted:
    """A table whose columns shrink to the terminal, but not below `least`: rich would leave columns out."""

    def __init__(self, made: Table, natural: list[int], least: list[int], *, gap_cells: int) -> None:
        self._made = made
        self._natural = natural
        self._least = least
        self._gaps_cells = gap_cells * (len(natural) - 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width - self._gaps_cells)
        for column, width in zip(self._made.columns, widths, strict=True):
            column.width = width
        max_width = max(options.max_width, sum(widths) + self._gaps_cells)
        yield from console.render(self._made, options.update(max_width=max_width))

    def _widths(self, room: int) -> list[int]:
        """Shrink the last column first, then the widest ones by turns."""
        widths = list(self._natural)
        widths[-1] = max(self._least[-1], widths[-1] - max(0, sum(widths) - room))
        while sum(widths) > room:
            wider = [place for place, width in enumerate(widths) if width > self._least[place]]
            if not wider:
                break
            widths[max(wider, key=widths.__getitem__)] -= 1
        return widths


def fields(title: str, rows: Iterable[tuple[str, str]]) -> Group:
    """Return one line for each property of one thing. Long values continue on the next line."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, escape(safe_text(value)))
    return Group(Text(title, style="bold"), made, "")
