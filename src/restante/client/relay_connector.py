"""How a client reaches a relay: by TLS to the relay's key, and with proof of the inbox where mail is asked for."""

from collections.abc import Awaitable, Callable

from restante.crypto.identity import Identity
from restante.ports.relay_connection import RelayConnection
from restante.runtime.endpoints import PinnedRelay
from restante.runtime.transport.relay_connection import TlsRelayConnection

Connector = Callable[[PinnedRelay, Identity | None], Awaitable[RelayConnection]]
"""A link to a relay; with an identity it is opened for its mail, too."""


async def connect_by_tls(relay: PinnedRelay, owner: Identity | None) -> RelayConnection:
    link = await TlsRelayConnection.connect(relay.endpoint.host, relay.endpoint.port, node=relay.key)
    if owner is not None:
        try:
            await link.subscribe(owner)
        except BaseException:
            await link.close()
            raise
    return link
