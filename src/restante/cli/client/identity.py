"""`restante id`: create and show an identity, and export its contact file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from restante.cli.client.home import (
    HomeOption,
    PassphraseOption,
    find_client_home,
    hinting_empty_directory,
    opened_client,
    read_passphrase,
)
from restante.cli.client.options import JsonOption
from restante.cli.client.relay import RELAY_VARIABLE, RelayOption
from restante.cli.terminal import console, interruptible, print_json, warn
from restante.model.errors import ConfigurationInvalid
from restante.views.text_tables import fields

if TYPE_CHECKING:
    from restante.client.client import Client

EXAMPLES = """\
[bold]Examples[/bold]

  restante id new ./me --mesh KEY@HOST:PORT    nodes of a mesh, as 'restante up' prints them
  restante contact add alice rst1… --home ./me
  restante id new ./me --relay KEY@HOST:PORT   a relay as 'node status' prints it
  restante id export --home ./me -o me.json    give this file to your contacts
  restante contact add alice alice.json --home ./me
"""

app = typer.Typer(
    help="Create and show an identity, and export the file that contacts need.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command()
def new(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory.")],
    *,
    relay: RelayOption = None,
    mesh: Annotated[
        list[str] | None,
        typer.Option(
            "--mesh", metavar="NODE[,NODE…]", help="Nodes of a mesh to ask first, each KEY@HOST:PORT. Repeatable."
        ),
    ] = None,
    circuits: Annotated[
        str,
        typer.Option(
            metavar="required|off",
            help="Whether the mesh is reached through circuits.",
        ),
    ] = "required",
    passphrase_file: PassphraseOption = None,
    no_passphrase: Annotated[
        bool, typer.Option("--no-passphrase", help="Store the key unencrypted, in a file of mode 0600.")
    ] = False,
    for_tests: Annotated[
        bool, typer.Option("--for-tests", hidden=True, help="Allow the section [testing] in the settings.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create an identity that receives its messages in a mesh, at a relay, or both. In a mesh its keys are published.

    Asks for a passphrase that encrypts the key. The key is the identity: keep a copy of the file.
    """
    import asyncio

    from restante.client.client import Client
    from restante.client.home import ClientDirectory
    from restante.client.mesh.host import WITHOUT_CIRCUITS, CircuitMode, circuit_mode
    from restante.runtime.endpoints import parse_relay_place
    from restante.runtime.system import SystemClock, SystemEntropy
    from restante.runtime.testing_clock import MADE_FOR_TESTS
    from restante.wire.address import show_address

    nodes = [parse_relay_place(node) for each in mesh or () for node in each.split(",")]
    if relay is None and not nodes:
        raise ConfigurationInvalid(
            f"no place given: add --mesh KEY@HOST:PORT of nodes, or --relay KEY@HOST:PORT (or set {RELAY_VARIABLE})"
        )
    pinned = None if relay is None else parse_relay_place(relay)
    if no_passphrase and passphrase_file is not None:
        raise ConfigurationInvalid("--no-passphrase and --passphrase-file exclude each other")
    passphrase = None if no_passphrase else _new_passphrase(passphrase_file)
    home = ClientDirectory(directory)
    mode = circuit_mode(circuits)
    now_ms = SystemClock().now_ms()
    with hinting_empty_directory():
        identity = home.create(pinned, SystemEntropy(), mesh=nodes, circuits=mode, now_ms=now_ms, passphrase=passphrase)
    if for_tests:
        (directory / MADE_FOR_TESTS).touch()
    data = {
        "address": show_address(identity.address),
        "places": [str(place) for place in home.places()],
        "key": str(home.key),
        "has_passphrase": passphrase is not None,
    }
    if nodes:
        asyncio.run(_publish(Client.open(directory, passphrase), as_json=as_json))
    if as_json:
        print_json(data)
        return
    out = console()
    _print_identity(f"Created an identity in {directory}", data)
    if nodes and mode is CircuitMode.OFF:
        out.print(f"Circuits are off: {WITHOUT_CIRCUITS}.", soft_wrap=True, markup=False)
    if nodes:
        out.print(f"Next: restante send ADDRESS TEXT --add NAME --home {directory}", soft_wrap=True, markup=False)
    else:
        out.print(f"Next: restante id export --home {directory} -o me.json", soft_wrap=True, markup=False)


@app.command()
def show(
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the address of an identity and where its mail is stored."""
    from restante.cli.client.home import explain_wrong_passphrase, passphrase_for
    from restante.wire.address import show_address

    directory = find_client_home(home)
    passphrase = passphrase_for(directory, passphrase_file)
    with explain_wrong_passphrase(passphrase):
        identity = directory.identity(passphrase=passphrase)
    data = {
        "address": show_address(identity.address),
        "places": [str(place) for place in directory.places()],
        "key": str(directory.key),
        "has_passphrase": passphrase is not None,
    }
    if as_json:
        print_json(data)
    else:
        _print_identity("Identity", data)


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
    """Write the contact file of this identity: card, prekeys and relay. It contains no secret.

    Prekeys expire after a month. Give contacts a new file before that.
    """
    import asyncio

    from restante.client.contacts import encode_contact
    from restante.runtime.private_file import write_private

    raw = encode_contact(asyncio.run(_exported(opened_client(ctx, home, passphrase_file))))
    if output is None:
        sys.stdout.write(raw.decode())
        return
    write_private(output, [raw])
    console().print(f"Written to {output}. Contacts add it with 'restante contact add'", markup=False)


async def _publish(client: "Client", *, as_json: bool) -> None:
    """Publish the keys of a new identity, so that others can write to its address at once."""
    from restante.cli.mesh.people import publish_keys
    from restante.ports.relay_connection import AttemptFailed

    try:
        await publish_keys(client)
    except AttemptFailed as problem:
        warn(f"the keys are not published yet ({problem}); the client does it when it runs", as_json=as_json)
    finally:
        await client.close()


async def _exported(client: "Client") -> Any:
    try:
        return await client.as_contact()
    finally:
        await client.close()


def _new_passphrase(file: Path | None) -> str:
    if file is not None:
        return read_passphrase(file)
    if not sys.stdin.isatty():
        raise ConfigurationInvalid(
            "there is no terminal to ask for a passphrase: add --passphrase-file FILE, or --no-passphrase"
        )
    with interruptible():
        return str(typer.prompt("New passphrase", hide_input=True, confirmation_prompt="Once more"))


def _print_identity(title: str, data: dict[str, Any]) -> None:
    """Print address, key and places. No place is broken: it is there to be copied."""
    kept = "encrypted with a passphrase" if data["has_passphrase"] else "unencrypted, mode 0600"
    out = console()
    out.print(fields(title, [("address", data["address"]), ("key", f"{data['key']}, {kept}")]), soft_wrap=True)
    out.print("Its mail is stored at:")
    for place in data["places"]:
        out.print(place, soft_wrap=True, markup=False)
    out.print()
