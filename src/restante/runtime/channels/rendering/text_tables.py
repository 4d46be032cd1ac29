"""Format a table with aligned columns, for a fixed-width font."""

import unicodedata
from collections.abc import Sequence
from typing import Final

MAX_COLUMN_WIDTH: Final = 32
"""No cell is padded beyond this, so that one long cell does not widen every other row."""

_GLUE: Final = " | "


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as text. The first is the head, with a line under it. Cells are never cut."""
    columns = max(map(len, rows), default=0)
    widths = [
        min(MAX_COLUMN_WIDTH, max((_width(row[column]) for row in rows if column < len(row)), default=0))
        for column in range(columns)
    ]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "-+-".join("-" * max(width, 1) for width in widths))
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False)]
    return _GLUE.join(cells).rstrip()


def _width(text: str) -> int:
    """Return the columns on a terminal: wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
