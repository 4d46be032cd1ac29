"""Print tables, JSON and errors, on any terminal, pipe or file.

Colours appear only on a terminal that supports them (rich honours NO_COLOR). Results go to standard output, errors to
standard error; with `--json` both are JSON.
"""

import codecs
import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import typer
from rich.console import Console

from restante.cli.error_advice import EXIT_FAILURE, advice_for
from restante.model.errors import ConfigurationInvalid, RestanteError
from restante.views.formatting import safe_text

HINT: Final = "hint: "
JSON_OPTION: Final = "--json"
_ASCII: Final = {"…": "...", "→": "->", "•": "*", "─": "-", "█": "#", "░": "."}
_ENCODING_ERRORS: Final = "restante-ascii"


class _WholeLines(Console):
    """Cuts no line: what is wider than the terminal goes on in its next row."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*objects, **{"crop": False, **options})


def console() -> Console:
    return _WholeLines(highlight=False)


class OutputLost(Exception):
    """Standard output could not be written: its disk is full, or the reader closed the pipe."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(problem.strerror)
        self.is_closed_pipe = isinstance(problem, BrokenPipeError)


class _CheckedOutput(io.TextIOWrapper):
    """Standard output that raises `OutputLost`, so that its failures differ from those of other files."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as problem:
            raise OutputLost(problem) from problem

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as problem:
            raise OutputLost(problem) from problem


def prepare_streams() -> None:
    """Let standard output report its failures, and let both streams replace characters their encoding lacks.

    Without a replacement, a table in a terminal with the encoding ASCII ends in a UnicodeEncodeError. The number of a
    stream that the caller closed must not go to the next file that is opened. A closed standard output fails when it is
    written: what nobody could see does not count as shown.
    """
    for name, mode, opened_for in (
        ("stdin", "r", os.O_RDONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            nowhere = os.fdopen(os.open(os.devnull, opened_for), mode, encoding="utf-8")
            setattr(sys, name, nowhere)
            setattr(sys, f"__{name}__", nowhere)
    codecs.register_error(_ENCODING_ERRORS, _substitute)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ENCODING_ERRORS)
    if isinstance(sys.stdout, io.TextIOWrapper):
        out = sys.stdout
        sys.stdout = _CheckedOutput(
            out.buffer, encoding=out.encoding, errors=_ENCODING_ERRORS, line_buffering=out.line_buffering
        )


def _substitute(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_ASCII.get(character, "?") for character in missing), error.end


def discard_output() -> None:
    """Send the rest of standard output nowhere, so that the interpreter does not fail on it when it exits."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether the command line has the option --json."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return JSON_OPTION in options


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C at a question of typer's end the command as Ctrl-C does anywhere else, and Ctrl-D as a failure."""
    try:
        yield
    except typer.Abort as aborted:
        if isinstance(aborted.__context__, EOFError):
            typer.echo("Aborted: there was no answer.", err=True)
            raise typer.Exit(EXIT_FAILURE) from None
        raise KeyboardInterrupt from None


def ask(question: str, *, as_json: bool) -> None:
    """Continue only if the user answers yes. Without a terminal there is no answer, so --yes is required."""
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationInvalid("this command changes messages and needs a confirmation: add --yes")
    with interruptible():
        is_sure = typer.confirm(question)
    if not is_sure:
        typer.echo("Nothing was changed.")
        raise typer.Exit(EXIT_FAILURE)


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))


def print_error(problem: RestanteError, *, as_json: bool = False) -> None:
    """Print the code, the text, the notes and a hint.

    A note that begins with `HINT` replaces the general advice for the code.
    """
    notes = [str(note) for note in getattr(problem, "__notes__", ())]
    hints = [note.removeprefix(HINT) for note in notes if note.startswith(HINT)] or [advice_for(problem.code)]
    notes = [note for note in notes if not note.startswith(HINT)]
    if as_json:
        print_json_error(code=problem.code.value, text=str(problem), notes=notes, hint=" ".join(hints))
        return
    err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    err.print(f"error {problem.code.value}:", style="bold red", end=" ")
    err.print(safe_text(str(problem)))
    for line in [*notes, *(HINT + hint for hint in hints)]:
        err.print(f"  {safe_text(line)}")


def print_json_error(**fields: Any) -> None:
    typer.echo(json.dumps({"error": fields}), err=True)


def warn(text: str, *, as_json: bool) -> None:
    """Print a warning to standard error. The command continues."""
    typer.echo(json.dumps({"warning": text}) if as_json else f"warning: {safe_text(text)}", err=True)
