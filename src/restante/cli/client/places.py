"""`restante places`: where the mail of this identity is stored, in the order in which contacts try the places."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from restante.cli.client.home import HomeOption, PassphraseOption, find_client_home, hinting, opened_client
from restante.cli.client.options import JsonOption
from restante.cli.terminal import console, print_json
from restante.views import formatting
from restante.views.text_tables import table

if TYPE_CHECKING:
    from restante.client.client import Client
    from restante.client.places.own_places import OwnPlaces

EXAMPLES = """\
[bold]Examples[/bold]

  restante places show --home ./me
  restante places set mesh KEY@HOST:PORT     the mesh first, then a relay as 'node status' prints it
  restante places set KEY@HOST:PORT          this relay only
  restante places set mesh --mesh KEY@HOST:PORT,KEY@HOST:PORT
"""

app = typer.Typer(
    help="Show and change where your own mail is stored.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command()
def show(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show where your mail is stored, in the order in which contacts try, and which old places are still read."""
    _print(find_client_home(home).own_places(), as_json=as_json)


@app.command("set")
def set_places(
    ctx: typer.Context,
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="PLACE…", help="All places in the order to try: 'mesh', or a relay as KEY@HOST:PORT. At most 8."
        ),
    ],
    *,
    mesh: Annotated[
        list[str] | None,
        typer.Option(
            "--mesh", metavar="NODE[,NODE…]", help="Nodes of a mesh to ask first, each KEY@HOST:PORT. Repeatable."
        ),
    ] = None,
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store your mail at these places from now on. Contacts are told inside the session, in the mesh it is published.

    Old places are read for 30 more days, because a contact that is away still uses them. People who have only your
    contact file need a new one by then. A running client ('restante run') moves by itself.
    """
    import asyncio

    from restante.client.home import parse_place
    from restante.runtime.endpoints import parse_relay_place

    directory = find_client_home(home)
    with hinting("A place is 'mesh' or KEY@HOST:PORT, as 'restante node status' prints it for a relay."):
        wanted = [parse_place(each) for each in places]
        nodes = [parse_relay_place(node) for each in mesh or () for node in each.split(",")]
    client = opened_client(ctx, home, passphrase_file)
    try:
        directory.move(wanted, mesh=nodes, now_ms=client.now_ms())
    except BaseException:
        asyncio.run(client.close())
        raise
    asyncio.run(_tell(client))
    _print(directory.own_places(), as_json=as_json)
    if not as_json:
        console().print("Contacts are told when the client runs.")


async def _tell(client: "Client") -> None:
    """Queue what contacts are told, so that it leaves with the next run."""
    try:
        client.own_places.refresh()
        await client.run_maintenance()
    finally:
        await client.close()


def _print(own: "OwnPlaces", *, as_json: bool) -> None:
    from restante.core.inboxes.former_inboxes import READ_MS
    from restante.runtime.system import SystemClock

    former = [(str(each.place), each.retired_at_ms + READ_MS) for each in own.former]
    if as_json:
        data: dict[str, Any] = {
            "places": [str(place) for place in own.current],
            "former": [{"place": place, "until_ms": until_ms} for place, until_ms in former],
        }
        print_json(data)
        return
    now_ms = SystemClock().now_ms()
    rows = [(str(place), str(number), "") for number, place in enumerate(own.current, 1)]
    rows += [(place, "", formatting.away(until_ms, now_ms)) for place, until_ms in former]
    console().print(table("Places", "place", "order", "read ends", rows=rows, right=("order",)))
