"""How tables, JSON and errors are printed. Colours only where a terminal wants them (NO_COLOR is honoured by rich)."""

import json
import sys
from collections.abc import Iterable
from typing import Final

import typer
from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from restante.cli.advice import EXIT_FAILURE, advice_for
from restante.model.errors import ConfigurationInvalid, RestanteError

HINT: Final = "hint: "


def console() -> Console:
    return Console(highlight=False)


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


def ask(question: str, *, as_json: bool) -> None:
    """Go on only if a person says yes; where nobody can be asked, that has to be said beforehand."""
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationInvalid("this changes messages and nobody can be asked here: add --yes to go ahead")
    if not typer.confirm(question):
        typer.echo("Nothing was changed.")
        raise typer.Exit(EXIT_FAILURE)


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))


def print_error(problem: RestanteError) -> None:
    """The code first, since it is what stays; then the text, where it came from and what to do next.

    A command that knows better than the code what to do says so in a note of the error that begins with `HINT`.
    """
    err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    err.print(f"error {problem.code.value}:", style="bold red", end=" ")
    err.print(str(problem))
    notes = list(getattr(problem, "__notes__", ()))
    if not any(note.startswith(HINT) for note in notes):
        notes.append(HINT + advice_for(problem.code))
    for line in notes:
        err.print(f"  {line}")
