"""views/text_tables: what a table keeps in a narrow terminal."""

import io

import pytest
from rich.console import Console

from restante.cli.terminal import console, print_error
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.views.text_tables import fields, table

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


@pytest.mark.parametrize("dense", [True, False])
def test_no_number_is_cut_in_a_narrow_terminal(dense: bool) -> None:
    text = io.StringIO()
    rows = [("62a2fed3", "7 min ago", "10,755", "1,000", "not answered by anybody", "alice")]
    columns = ("session", "began", "sent", "in flight", "state", "with")
    made = table("Sessions", *columns, rows=rows, right=("began", "sent", "in flight"), dense=dense)
    Console(file=text, width=40).print(made)
    for number in ("7 min ago", "10,755", "1,000"):
        assert f" {number} " in text.getvalue()


def test_a_column_that_wraps_keeps_room_for_a_word() -> None:
    text = io.StringIO()
    rows = [("2026-11-18 14:01:20", "wrong_node_key", "another node than the pinned one answered at a relay's place")]
    Console(file=text, width=52).print(table("Security events", "when", "code", "what", rows=rows))
    assert "another node" in text.getvalue()


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("width", [30, 60, 80])
def test_no_column_is_left_out(
    width: int, dense: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    columns = ("place", "where", "number of hops", "reads end", "order")
    rows = [("mesh", "nodes that the home names", "3", "never at all", "12"), ("relay", "there", "0", "soon", "7")]
    console().print(table("Places", *columns, rows=rows, right=("number of hops", "order"), dense=dense))
    heads = " ".join(capsys.readouterr().out.splitlines()[1:4]).split()
    assert {"place", "where", "number", "hops", "reads", "end", "order"} <= set(heads)


def test_what_is_wider_than_the_terminal_is_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    numbers = [f"{10**place:,}" for place in range(4, 12)]
    columns = [f"P{number}" for number in range(8)]
    for dense in (True, False):
        console().print(table("Latency in ms", "kind", *columns, rows=[("text", *numbers)], right=columns, dense=dense))
        assert capsys.readouterr().out.splitlines()[3].split() == ["text", *numbers]


def test_no_value_of_a_whole_table_is_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    row = ("withholding", "ab" * 32, "signed for 404 messages")
    console().print(table("Alerts", "alert", "subject", "detail", rows=[row], whole=True))
    assert capsys.readouterr().out.splitlines()[3].split(maxsplit=2) == [*row]


def test_names_of_others_do_not_control_the_terminal() -> None:
    """Names of files in a lake, for example: whoever writes there chooses them."""
    text, name = io.StringIO(), "\x1b]0;title\x07\x1b[2J\u202efile\x9b31m"
    out = Console(file=text, width=100)
    out.print(table("Files", "file", "why", rows=[(name, name)]))
    out.print(fields("File", [("name", name)]))
    assert text.getvalue().count("file\N{REPLACEMENT CHARACTER}31m") == 3
    assert not set("\x1b\x07\u202e\x9b").intersection(text.getvalue())


def test_errors_do_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    problem = RestanteError("\x1b[2Jfile cannot be read", code=Code.NOT_FOUND)
    problem.add_note("\x1b]0;title\x07")
    print_error(problem)
    said = capsys.readouterr().err
    assert "file cannot be read" in said
    assert "\x1b" not in said
