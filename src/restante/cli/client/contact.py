"""`restante contact`: whom one can write to, and whose mail is taken in."""

from pathlib import Path
from typing import Annotated

import typer

from restante.cli.client.home import HomeOption, directory_of, warn_of_unusable_contacts
from restante.cli.client.options import JsonOption
from restante.cli.terminal import console, print_json
from restante.views import formatting
from restante.views.text_tables import table

app = typer.Typer(
    help="Keep the cards and prekeys of those one writes to.", no_args_is_help=True, rich_markup_mode="rich"
)


@app.command()
def add(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What 'restante id export' wrote for them.")],
    *,
    name: Annotated[str, typer.Option("--name", help="What to call them.")],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add somebody, or renew their prekeys. Card and prekeys must be signed by their address.

    Compare the address with them over a way you trust: it is all that tells them from somebody else.
    """
    from restante.client.contacts import read_contact
    from restante.runtime.system import SystemClock
    from restante.wire.address import show_address

    directory = directory_of(home)
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
    """List the contacts, and how old their prekeys are."""
    from restante.crypto.prekeys import BUNDLE_LIFE_MS
    from restante.runtime.system import SystemClock
    from restante.wire.address import show_address
    from restante.wire.prekey_bundle import decode_bundle

    now_ms = SystemClock().now_ms()
    book = directory_of(home).contact_book()
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
        out.print("There are no contacts yet; add one with 'restante contact add'.")
        return
    rows = [
        (
            contact.name,
            formatting.away(bundle.prekey_created_at_ms + BUNDLE_LIFE_MS, now_ms),
            show_address(contact.address),
        )
        for contact, bundle in found
    ]
    out.print(table("Contacts", "name", "prekeys end", "address", rows=rows, right=("prekeys end",), dense=True))
