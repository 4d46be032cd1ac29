"""`restante id`: make an identity, see it, and hand it to those who shall write to it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restante.cli.client.home import HomeOption, PassphraseOption, directory_of, opened_client, passphrase_in
from restante.cli.client.options import JsonOption
from restante.cli.client.relay import RELAY_VARIABLE, RelayOption
from restante.cli.terminal import console, print_json
from restante.model.errors import ConfigurationInvalid
from restante.views.text_tables import fields

if TYPE_CHECKING:
    from restante.client.client import Client

EXAMPLES = """\
[bold]Examples[/bold]

  restante id new ./me --relay KEY@HOST:PORT   a relay as 'node status' prints it
  restante id export --home ./me -o me.json    hand this file to your contacts
  restante contact add alice.json --name alice --home ./me
"""

app = typer.Typer(
    help="Make an identity, see it, and write the file that lets others reach it.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command()
def new(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory.")],
    *,
    relay: RelayOption = None,
    passphrase_file: PassphraseOption = None,
    no_passphrase: Annotated[
        bool, typer.Option("--no-passphrase", help="Keep the key as it is, in a file of mode 0600.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make an identity whose mail is kept at a relay.

    Asks for a passphrase, under which the key is kept. Who has the key is you: keep a copy of it.
    """
    from restante.client.home import ClientDirectory
    from restante.runtime.endpoints import parse_relay_place
    from restante.runtime.system import SystemEntropy
    from restante.wire.address import show_address

    if relay is None:
        raise ConfigurationInvalid(f"say which relay keeps your mail with --relay KEY@HOST:PORT or {RELAY_VARIABLE}")
    pinned = parse_relay_place(relay)
    if no_passphrase and passphrase_file is not None:
        raise ConfigurationInvalid("--no-passphrase and --passphrase-file exclude each other")
    passphrase = None if no_passphrase else _new_passphrase(passphrase_file)
    home = ClientDirectory(directory)
    identity = home.create(pinned, SystemEntropy(), passphrase=passphrase)
    data = {
        "address": show_address(identity.address),
        "relay": str(pinned),
        "key": str(home.key),
        "has_passphrase": passphrase is not None,
    }
    if as_json:
        print_json(data)
        return
    out = console()
    out.print(fields(f"Made an identity in {directory}", _lines(data)), soft_wrap=True)
    out.print(f"Next: restante id export --home {directory} -o me.json", soft_wrap=True, markup=False)


@app.command()
def show(
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the address of an identity and the relay that keeps its mail."""
    from restante.cli.client.home import explained, passphrase_for
    from restante.wire.address import show_address

    directory = directory_of(home)
    passphrase = passphrase_for(directory, passphrase_file)
    with explained(passphrase):
        identity = directory.identity(passphrase=passphrase)
    data = {
        "address": show_address(identity.address),
        "relay": str(directory.relay()),
        "key": str(directory.key),
        "has_passphrase": passphrase is not None,
    }
    if as_json:
        print_json(data)
    else:
        console().print(fields("Identity", _lines(data)), soft_wrap=True)


@app.command()
def export(
    ctx: typer.Context,
    *,
    home: HomeOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of to the terminal.")
    ] = None,
    passphrase_file: PassphraseOption = None,
) -> None:
    """Write the card, the prekeys and the relay: what others need to write to this identity. No secret is in it.

    Prekeys age: hand out a new file at least every month.
    """
    import asyncio

    from restante.client.contacts import encode_contact
    from restante.runtime.private_file import write_private

    raw = encode_contact(asyncio.run(_exported(opened_client(ctx, home, passphrase_file))))
    if output is None:
        sys.stdout.write(raw.decode())
        return
    write_private(output, [raw])
    console().print(f"Written to {output}; others add it with 'restante contact add'", markup=False)


async def _exported(client: "Client") -> Any:
    try:
        return await client.as_contact()
    finally:
        await client.close()


def _new_passphrase(file: Path | None) -> str:
    if file is not None:
        return passphrase_in(file)
    if not sys.stdin.isatty():
        raise ConfigurationInvalid(
            "nobody can be asked for a passphrase here: add --passphrase-file FILE, or --no-passphrase"
        )
    return str(typer.prompt("New passphrase", hide_input=True, confirmation_prompt="Once more"))


def _lines(data: dict[str, Any]) -> list[tuple[str, str]]:
    kept = "under a passphrase" if data["has_passphrase"] else "as it is, mode 0600"
    return [("address", data["address"]), ("relay", data["relay"]), ("key", f"{data['key']}, {kept}")]
