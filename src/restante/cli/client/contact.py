"""`restante contact`: the contacts of a client. It sends to them and accepts messages from them only."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.client.home import (
    HomeOption,
    PassphraseOption,
    find_client_home,
    hinting,
    hinting_new_prekeys,
    opened_client,
    warn_of_unusable_contacts,
)
from restante.cli.client.options import JsonOption
from restante.cli.terminal import console, print_json
from restante.views import formatting
from restante.views.text_tables import table

if TYPE_CHECKING:
    from restante.client.client import Client
    from restante.client.contacts import Contact

app = typer.Typer(help="Add, list and remove contacts.", no_args_is_help=True, rich_markup_mode="rich")


@app.command()
def add(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name for the contact: a-z, 0-9, dot, underscore, hyphen.")
    ],
    source: Annotated[
        str,
        typer.Argument(metavar="ADDRESS|FILE", help="Its address, or the file that 'restante id export' wrote for it."),
    ],
    *,
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a contact, or update its prekeys and places. With an address they come from the mesh, else from a file.

    They must be signed by the address. Compare it with the contact over a channel you trust: nothing else proves who
    owns it.
    """
    import asyncio

    from restante.cli.mesh.people import is_address
    from restante.client.contacts import read_contact
    from restante.runtime.system import SystemClock
    from restante.wire.address import show_address

    if is_address(source):
        contact = asyncio.run(_from_mesh(opened_client(ctx, home, passphrase_file), name, source))
    else:
        directory = find_client_home(home)
        with hinting_new_prekeys():
            now_ms = SystemClock().now_ms()
            contact = read_contact(Path(source), now_ms=now_ms, name=name)
        directory.contact_book().add(contact, now_ms=now_ms)
    if as_json:
        places = [str(place) for place in contact.places.places]
        print_json({"name": name, "address": show_address(contact.address), "places": places})
        return
    out = console()
    out.print(f"{name} is a contact:", markup=False)
    out.print(show_address(contact.address), soft_wrap=True)


async def _from_mesh(client: "Client", name: str, address: str) -> "Contact":
    from restante.cli.mesh.people import add_by_address
    from restante.wire.address import parse_address

    try:
        return await add_by_address(client, name, parse_address(address))
    finally:
        await client.close()


@app.command()
def remove(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="The contacts, as 'contact list' shows them.")],
    *,
    block: Annotated[
        bool, typer.Option("--block", help="Also keep nothing of what they write from now on, not even as a request.")
    ] = False,
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove contacts. The others get a new access secret, so that the removed can't write to your contacts inbox.

    The old inbox is read for 30 more days, for contacts that have not heard of the new one. What the removed write in
    their sessions is rejected. If they open a new session, it is kept as a request, unless you block them.
    """
    import asyncio

    client = opened_client(ctx, home, passphrase_file)
    is_new_secret, waiting = asyncio.run(_removed(client, names, block=block))
    if as_json:
        print_json({"removed": names, "blocked": block, "has_new_secret": is_new_secret, "undelivered": waiting})
        return
    out = console()
    out.print(f"Removed {', '.join(names)}{' and blocked' if block else ''}.", markup=False)
    if is_new_secret:
        out.print("Your other contacts are told the new access secret when the client runs.")
    if waiting:
        what = "1 message to them waits" if waiting == 1 else f"{waiting} messages to them wait"
        out.print(f"{what} in the outbox, and can't be sent any more. See 'restante outbox list'.", markup=False)


async def _removed(client: "Client", names: list[str], *, block: bool) -> tuple[bool, int]:
    """Remove the contacts; return whether there is a new access secret, and how much mail to them is undelivered."""
    try:
        with hinting("List your contacts with 'restante contact list'."):
            contacts = [client.contacts.named(name) for name in names]
        before = client.parts.own_access.current.number
        for contact in contacts:
            if block:
                await client.parts.requests.block(contact.address, now_ms=client.now_ms())
            # Inside a transaction no other process writes the file again.
            await client.file.run(partial(client.contacts.remove, contact))
        await client.run_maintenance()
        lanes = {contact.lane for contact in contacts}
        waiting = await client.file.run(lambda: sum(client.outbox.store.lanes.held_for(lane) for lane in lanes))
        return client.parts.own_access.current.number > before, waiting
    finally:
        await client.close()


@app.command("list")
def list_contacts(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List the contacts and when their prekeys expire."""
    from restante.crypto.prekeys import BUNDLE_LIFE_MS
    from restante.runtime.system import SystemClock
    from restante.wire.address import show_address
    from restante.wire.prekey_bundle import decode_bundle

    now_ms = SystemClock().now_ms()
    book = find_client_home(home).contact_book()
    warn_of_unusable_contacts(book, as_json=as_json)
    found = [(contact, decode_bundle(contact.bundle)) for contact in book]
    if as_json:
        print_json(
            [
                {
                    "name": contact.name,
                    "address": show_address(contact.address),
                    "places": [str(place) for place in contact.places.places],
                    "prekeys_until_ms": bundle.prekey_created_at_ms + BUNDLE_LIFE_MS,
                }
                for contact, bundle in found
            ]
        )
        return
    out = console()
    if not found:
        out.print("There are no contacts. Add one with 'restante contact add'.")
        return
    rows = [
        (
            contact.name,
            formatting.away(bundle.prekey_created_at_ms + BUNDLE_LIFE_MS, now_ms),
            show_address(contact.address),
        )
        for contact, bundle in found
    ]
    out.print(table("Contacts", "name", "prekeys end", "address", rows=rows, right=("prekeys end",)))
