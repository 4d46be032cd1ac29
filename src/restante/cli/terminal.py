"""How tables, JSON and errors are printed. Colours only where a terminal wants them (NO_COLOR is honoured by rich)."""

import json
from collections.abc import Iterable

import typer
from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from restante.cli.advice import advice_for
from restante.model.errors import RestanteError


def console() -> Console:
    return Console(highlight=False)


def table(title: str, *columns: str, rows: Iterable[Iterable[str]], right: Iterable[str] = ()) -> Group:
    """A plain table under its title; columns named in `right` hold numbers. Only the last column may wrap."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=column != columns[-1],
            overflow="fold",
        )
    for row in rows:
        made.add_row(*map(escape, row))
    return Group(Text(title, style="bold"), made, "")


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))


def print_error(problem: RestanteError) -> None:
    """The code first, since it is what stays; then the text, where it came from and what to do next."""
    err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    err.print(f"error {problem.code.value}:", style="bold red", end=" ")
    err.print(str(problem))
    for line in (*getattr(problem, "__notes__", ()), f"hint: {advice_for(problem.code)}"):
        err.print(f"  {line}")
