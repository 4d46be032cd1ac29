"""The options that all commands on a client's file share. Nothing here opens a file."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from restante.model.errors import Malformed

FILE_VARIABLE: Final = "RESTANTE_FILE"
FEWEST_DIGITS: Final = 8
MOST_DIGITS: Final = 32
_DIGITS: Final = re.compile(rf"[0-9a-f]{{{FEWEST_DIGITS},{MOST_DIGITS}}}")

FileOption = Annotated[
    Path | None,
    typer.Option("--file", metavar="PATH", envvar=FILE_VARIABLE, help="The client's database file."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON with plain numbers.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
PayloadOption = Annotated[bool, typer.Option("--payload", help="With the sealed payload: hex, in JSON base64.")]
LimitOption = Annotated[int, typer.Option(min=1, max=1_000_000, help="How many to show at most.")]
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help=f"A message id, or its first {FEWEST_DIGITS} characters or more.")
]
IdsArgument = Annotated[
    list[str], typer.Argument(metavar="ID", help=f"Message ids, or their first {FEWEST_DIGITS} characters or more.")
]


def digits_of(text: str) -> str:
    """What a person typed for a message id, as hexadecimal digits; hyphens may be left out."""
    digits = text.replace("-", "").lower()
    if not _DIGITS.fullmatch(digits):
        raise Malformed(
            f"{text!r} is no message id: give {FEWEST_DIGITS} to {MOST_DIGITS} hexadecimal digits,"
            " as 'restante outbox list' and 'restante dlq list' show them"
        )
    return digits
