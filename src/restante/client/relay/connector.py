"""Opens connections to relays: TLS pinned to the relay's key, and a subscription where mail is received."""

from collections.abc import Awaitable, Callable

from restante.crypto.identity import Identity
from restante.model.places import RelayPlace
from restante.ports.relay_connection import RelayConnection
from restante.runtime.transport.relay_connection import TlsRelayConnection

Connector = Callable[[RelayPlace, Identity | None], Awaitable[RelayConnection]]
"""Opens a connection to a relay. With an identity it subscribes to that identity's inbox and never puts (SPEC 6.5)."""


async def connect_by_tls(relay: RelayPlace, owner: Identity | None) -> RelayConnection:
    connection = await TlsRelayConnection.connect(relay.host, relay.port, node=relay.node_key)
    if owner is not None:
        try:
            await connection.subscribe(owner)
        except BaseException:
            await connection.close()
            raise
    return connection
