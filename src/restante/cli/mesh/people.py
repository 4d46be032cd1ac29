"""Find people by their address: fetch the keys that they published in the mesh, and add them as contacts."""

import asyncio
from typing import Final

from restante.cli.client.home import hinting, hinting_unreached_mesh
from restante.client.client import Client
from restante.client.contacts import Contact
from restante.client.mesh.host import MeshHost
from restante.core.mesh_proofs.published_keys import PublishedKeys
from restante.core.signed_bundles import verify_bundle
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError
from restante.model.ids import Address
from restante.wire.address import PREFIX

TRIES: Final = 3
PAUSE_S: Final = 1.0
LEAST_CHARACTERS: Final = 48
"""A text that begins as an address does and is this long is no name, even if some characters of it were lost."""
NOT_FOUND_HINT: Final = "Check the address. Its owner's client publishes its keys while it runs."


async def add_by_address(client: Client, name: str, address: Address) -> Contact:
    """Add the owner of an address as a contact, with keys and places from the mesh. The client may be running."""
    if address == client.identity.address:
        raise Malformed("this is your own address")
    with hinting_unreached_mesh(), hinting(NOT_FOUND_HINT, code=Code.RECIPIENT_NOT_FOUND):
        async with client.mesh_host() as host:
            found = await _fetched(host, address)
    bundle = verify_bundle(found.bundle, owner=address, now_ms=client.now_ms())
    contact = Contact(card=bundle.card, bundle=found.bundle, places=found.places, name=name)
    client.contacts.add(contact, now_ms=client.now_ms())
    return contact


async def _fetched(host: MeshHost, address: Address) -> PublishedKeys:
    """Fetch the keys; try again for some seconds: nodes that have just started do not know each other yet."""
    for _ in range(TRIES):
        try:
            return await host.prekeys.fetch(address)
        except RestanteError as problem:
            if problem.code not in (Code.DHT_LOOKUP_FAILED, Code.RECIPIENT_NOT_FOUND):
                raise
            await asyncio.sleep(PAUSE_S)
            await host.directory.refresh()
    return await host.prekeys.fetch(address)


async def publish_keys(client: Client) -> int:
    """Publish the client's own keys in the mesh; return how many nodes hold them."""
    async with client.mesh_host() as host:
        return await host.prekeys.publish(client.identity, await client.own_keys.published())


def is_address(text: str) -> bool:
    """Return whether a text is meant as an address, mistyped or not, and not as a name or a path."""
    return text.lower().startswith(f"{PREFIX}1") and text.isalnum() and len(text) >= LEAST_CHARACTERS
