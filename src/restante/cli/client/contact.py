"""`restante contact`: the contacts of a client. It sends to them and accepts messages from them only."""

from pathlib import Path
from typing import Annotated

import typer

from restante.cli.client.home import HomeOption, find_client_home, warn_of_unusable_contacts
from restante.cli.client.options import JsonOption
from restante.cli.terminal import console, print_json
from restante.views import formatting
from restante.views.text_tables import table

app = typer.Typer(help="Add and list contacts.", no_args_is_help=True, rich_markup_mode="rich")


@app.command()
def add(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file that 'restante id export' wrote for the contact.")
    ],
    *,
    name: Annotated[str, typer.Option("--name", help="Name for the contact: a-z, 0-9, dot, underscore, hyphen.")],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a contact, or update its prekeys and relay. The file must be signed by the contact's address.

    Compare the address with the contact over a channel you trust. Nothing else proves who owns it.
    """
    from restante.client.contacts import read_contact
    from restante.runtime.system import SystemClock
    from restante.wire.address import show_address

    directory = find_client_home(home)
    contact = read_contact(file, now_ms=SystemClock().now_ms(), name=name)
    directory.contact_book().add(contact)
    if as_json:
        print_json({"name": name, "address": show_address(contact.address), "relay": str(contact.places.places[0])})
        return
    out = console()
    out.print(f"{name} is a contact:", markup=False)
    out.print(show_address(contact.address), soft_wrap=True)


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
                    "relay": str(contact.places.places[0]),
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
    out.print(table("Contacts", "name", "prekeys expire", "address", rows=rows, right=("prekeys expire",), dense=True))
