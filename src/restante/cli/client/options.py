"""The options of commands that work on a client's file."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from restante.model.errors import Malformed

HOME_VARIABLE: Final = "RESTANTE_HOME"
FILE_VARIABLE: Final = "RESTANTE_FILE"
FEWEST_DIGITS: Final = 8
MOST_DIGITS: Final = 32
_DIGITS: Final = re.compile(rf"[0-9a-f]{{{FEWEST_DIGITS},{MOST_DIGITS}}}")

FileOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        "--file",
        metavar="PATH",
        envvar=[HOME_VARIABLE, FILE_VARIABLE],
        help="The client's directory, or a database file.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON with plain numbers.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
PayloadOption = Annotated[
    bool, typer.Option("--payload", help="Also show the sealed payload: as hex, in JSON as base64.")
]
LimitOption = Annotated[int, typer.Option(min=1, max=1_000_000, help="Show at most this many.")]
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help=f"A message id, or its first {FEWEST_DIGITS} characters or more.")
]
IdsArgument = Annotated[
    list[str], typer.Argument(metavar="ID", help=f"Message ids, or their first {FEWEST_DIGITS} characters or more.")
]


def parse_id_prefix(text: str) -> str:
    """Return the hexadecimal digits of a message id or of its beginning. Hyphens are optional."""
    digits = text.replace("-", "").lower()
    if not _DIGITS.fullmatch(digits):
        raise Malformed(
            f"{text!r} is not a message id: give {FEWEST_DIGITS} to {MOST_DIGITS} hexadecimal digits,"
            " as 'restante outbox list' and 'restante dlq list' show them"
        )
    return digits
