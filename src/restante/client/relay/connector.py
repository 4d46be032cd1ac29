"""Opens connections to relays: TLS pinned to the relay's key, and a subscription where mail is received."""

from collections.abc import Awaitable, Callable

from restante.core.inboxes.relay_inbox import OwnInbox
from restante.model.places import RelayPlace
from restante.ports.relay_connection import RelayConnection
from restante.runtime.transport.relay_connection import TlsRelayConnection

Connector = Callable[[RelayPlace, OwnInbox | None], Awaitable[RelayConnection]]
"""Opens a connection to a relay. With an inbox it subscribes to that and never puts (SPEC 6.5)."""


async def connect_by_tls(relay: RelayPlace, inbox: OwnInbox | None) -> RelayConnection:
    connection = await TlsRelayConnection.connect(relay.host, relay.port, node=relay.node_key)
    if inbox is not None:
        try:
            await connection.subscribe(inbox)
        except BaseException:
            await connection.close()
            raise
    return connection
