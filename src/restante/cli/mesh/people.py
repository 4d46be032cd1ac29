"""Find people by their address: fetch the keys that they published in the mesh, and add them as contacts."""

from restante.cli.client.home import hinting
from restante.client.client import Client
from restante.client.contacts import Contact
from restante.core.signed_bundles import verify_bundle
from restante.model.ids import Address
from restante.wire.address import parse_address

NOT_FOUND_HINT = "Check the address. Its owner's client publishes its keys while it runs."


async def add_by_address(client: Client, name: str, address: Address) -> Contact:
    """Add the owner of an address as a contact, with keys and places from the mesh. The client may be running."""
    with hinting(NOT_FOUND_HINT):
        async with client.mesh_host() as host:
            found = await host.prekeys.fetch(address)
    bundle = verify_bundle(found.bundle, owner=address, now_ms=client.now_ms())
    contact = Contact(card=bundle.card, bundle=found.bundle, places=found.places, name=name)
    client.contacts.add(contact)
    return contact


async def publish_keys(client: Client) -> int:
    """Publish the client's own keys in the mesh; return how many nodes hold them."""
    async with client.mesh_host() as host:
        return await host.prekeys.publish(client.identity, await client.own_keys.published())


def is_address(text: str) -> bool:
    """Return whether a text is an address and not a path."""
    try:
        parse_address(text)
    except ValueError:
        return False
    return True
