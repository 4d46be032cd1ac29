"""`restante requests`: mail of people who are no contacts yet. Accepting delivers it, blocking deletes it."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from restante.cli.client.home import (
    HomeOption,
    PassphraseOption,
    opened_client,
    places_not_reached,
)
from restante.cli.client.options import JsonOption
from restante.cli.mesh.running import run_now
from restante.cli.terminal import HINT, console, print_json
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.views import formatting
from restante.views.text_tables import table

if TYPE_CHECKING:
    from restante.cli.client.running_client import RunningClient
    from restante.client.client import Client
    from restante.client.places.reading_status import ReadingStatus
    from restante.model.ids import Address
    from restante.runtime.sqlite.requests import RequestSummary

WAIT_S: Final = 10.0

app = typer.Typer(
    help="Show mail of people who are no contacts yet; accept or block them.",
    invoke_without_command=True,
    rich_markup_mode="rich",
)

AddressArgument = Annotated[str, typer.Argument(metavar="ADDRESS", help="The sender, as 'restante requests' shows it.")]


@app.callback()
def requests(
    ctx: typer.Context,
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch mail, then list who wrote without being a contact. The texts are shown once a request is accepted.

    Exit status 1 if not all inboxes could be read.
    """
    if ctx.invoked_subcommand is not None:
        return
    from restante.cli.client.running_client import inboxes_not_read, running_client
    from restante.wire.address import show_address

    client, running = opened_client(ctx, home, passphrase_file), running_client(home)
    found, status = run_now(_list(client, running))
    is_reached = client.was_connected if status is None else status.is_read
    if as_json:
        print_json([{**one._asdict(), "sender": show_address(one.sender)} for one in found])
    elif found:
        _print(found)
    elif is_reached:
        console().print("There are no requests.")
    if status is not None and not status.is_read:
        raise inboxes_not_read(status)
    if not is_reached:
        raise places_not_reached(client.connection_failure)


def _print(found: "list[RequestSummary]") -> None:
    from restante.runtime.system import SystemClock
    from restante.wire.address import show_address

    out = console()
    now_ms = SystemClock().now_ms()
    rows = [(show_address(one.sender), formatting.away(one.first_at_ms, now_ms), f"{one.messages:,}") for one in found]
    right = ("since", "messages")
    out.print(table("Requests", "address", "since", "messages", rows=rows, right=right, dense=True))
    out.print("Answer with 'restante requests accept ADDRESS --name NAME' or 'restante requests block ADDRESS'.")


@app.command()
def accept(
    ctx: typer.Context,
    address: AddressArgument,
    *,
    name: Annotated[str, typer.Option("--name", help="Name for the contact: a-z, 0-9, dot, underscore, hyphen.")],
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the sender as a contact, with keys from the mesh, and show what it wrote."""
    from restante.cli.client.message_exchange import show_new
    from restante.cli.client.running_client import running_client
    from restante.wire.address import parse_address

    sender = parse_address(address)
    running = running_client(home)
    run_now(_accept(opened_client(ctx, home, passphrase_file), name, sender, running))
    result = run_now(
        show_new(
            opened_client(ctx, home, passphrase_file),
            again=False,
            follow=False,
            idle_timeout_s=2.0,
            as_json=as_json,
            running=running,
        )
    )
    if not result.shown and not as_json:
        console().print(f"{name} is a contact. Its messages are shown by 'restante inbox'.", markup=False)


@app.command()
def block(
    ctx: typer.Context,
    address: AddressArgument,
    *,
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
) -> None:
    """Delete what the sender wrote, and keep nothing of it from now on."""
    from restante.wire.address import parse_address

    sender = parse_address(address)
    run_now(_block(opened_client(ctx, home, passphrase_file), sender))
    console().print("Blocked. What this address writes is no longer kept.")


async def _list(
    client: "Client", running: "RunningClient | None"
) -> "tuple[list[RequestSummary], ReadingStatus | None]":
    from restante.cli.client.message_exchange import fetching

    try:
        async with fetching(client, running=running) as status:
            return await client.parts.requests.all(), status
    finally:
        await client.close()


async def _accept(client: "Client", name: str, sender: "Address", running: "RunningClient | None") -> None:
    from restante.cli.client.message_exchange import fetching
    from restante.cli.mesh.people import add_by_address

    try:
        async with fetching(client, running=running, until=lambda: _wrote(client, sender), within_s=WAIT_S):
            if not await _wrote(client, sender):
                problem = RestanteError("there is no request of this address", code=Code.NOT_FOUND)
                problem.add_note(f"{HINT}List the requests with 'restante requests'.")
                raise problem
            await add_by_address(client, name, sender)
    finally:
        await client.close()


async def _wrote(client: "Client", sender: "Address") -> bool:
    return any(one.sender == sender for one in await client.parts.requests.all())


async def _block(client: "Client", sender: "Address") -> None:
    try:
        contact = client.contacts.get(sender)
        if contact is not None:
            problem = RestanteError(f"this address is your contact {contact.name!r}", code=Code.ILLEGAL_TRANSITION)
            problem.add_note(f"{HINT}Remove and block it with 'restante contact remove {contact.name} --block'.")
            raise problem
        await client.parts.requests.block(sender, now_ms=client.now_ms())
    finally:
        await client.close()
