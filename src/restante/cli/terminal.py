"""How tables, JSON and errors are printed. Colours only where a terminal wants them (NO_COLOR is honoured by rich)."""

import json
import sys
from typing import Final

import typer
from rich.console import Console

from restante.cli.error_advice import EXIT_FAILURE, advice_for
from restante.model.errors import ConfigurationInvalid, RestanteError

HINT: Final = "hint: "


def console() -> Console:
    return Console(highlight=False)


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
