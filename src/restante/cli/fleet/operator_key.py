"""`restante fleet key`: the operator's key, which signs actions. Clients and nodes pin its public half."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from restante.cli.terminal import HINT
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, RestanteError

if TYPE_CHECKING:
    from restante.crypto.identity import Identity

OPERATOR_KEY_VARIABLE: Final = "RESTANTE_FLEET_OPERATOR_KEY"
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key", metavar="FILE", help="The operator's secret key, which signs actions and the list of enrolled keys."
    ),
]
OperatorKey = Annotated[
    str,
    typer.Option(
        "--operator-key",
        metavar="HEX",
        envvar=OPERATOR_KEY_VARIABLE,
        help="Public key of the operator whose actions are accepted.",
    ),
]
PinnedKey = Annotated[
    str | None,
    typer.Option(
        "--operator-key",
        metavar="HEX",
        envvar=OPERATOR_KEY_VARIABLE,
        help="Public key of the operator who enrolled the journals' keys. Without it no signature is checked.",
    ),
]

app = typer.Typer(
    name="key", help="The operator's key, which signs actions and the list of enrolled keys.", no_args_is_help=True
)


@app.command()
def new(file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the secret key.")]) -> None:
    """Create an operator's key and print the public key for clients and nodes."""
    from restante.crypto.identity import SEED_BYTES, Identity
    from restante.runtime.private_file import create_private
    from restante.runtime.system import SystemEntropy

    seed = SystemEntropy().draw(SEED_BYTES)
    if not create_private(file, seed.hex().encode() + b"\n"):
        problem = RestanteError(f"{file} exists; a key is never overwritten", code=Code.STORE_UNUSABLE)
        problem.add_note(f"{HINT}Name another file. The public key of this one: 'restante fleet key show {file}'.")
        raise problem
    typer.echo(bytes(Identity(seed).address).hex())


@app.command()
def show(file: Annotated[Path, typer.Argument(metavar="FILE", help="The secret key.")]) -> None:
    """Print the public key of an operator's key."""
    typer.echo(bytes(read_operator(file).address).hex())


def read_operator(file: Path) -> "Identity":
    from restante.crypto.identity import SEED_BYTES, Identity
    from restante.runtime.private_file import read_private

    raw = read_private(file, what="the operator's key", limit_bytes=2 * SEED_BYTES + 1)
    try:
        return Identity(bytes.fromhex(raw.decode("ascii").strip()))
    except ValueError:
        raise ConfigurationInvalid(
            f"{file.name} is not an operator's key; 'restante fleet key new' makes one"
        ) from None


def parse_operator_key(text: str) -> bytes:
    from restante.core.fleet.signed_actions import OPERATOR_KEY_BYTES

    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != OPERATOR_KEY_BYTES:
        raise ConfigurationInvalid(f"--operator-key must be {2 * OPERATOR_KEY_BYTES} hexadecimal digits")
    return key


def parse_pinned_key(text: str | None) -> bytes | None:
    return None if text is None else parse_operator_key(text)
