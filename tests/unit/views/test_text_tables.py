"""views/text_tables: what a table keeps in a narrow terminal."""

import io

import pytest
from rich.console import Console

from restante.views.text_tables import table

ID = "62a2fed3"
COLUMNS = ("message", "state", "kind", "attempts", "next", "expires", "error", "to")


def printed(width: int, *, dense: bool) -> str:
    text = io.StringIO()
    out = Console(file=text, width=width)
    row = (ID, "pending", "read_receipt", "12", "lease expired", "29 d", "E005", "mesh rst1qqqqqqqqqqqqqqqq")
    out.print(table("In flight", *COLUMNS, rows=[row], dense=dense))
    return text.getvalue()


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_the_first_column_is_whole_in_a_terminal_of_any_width(width: int, dense: bool) -> None:
    assert ID in printed(width, dense=dense)
