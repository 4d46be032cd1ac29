"""What moves outbox entries to their next hop: one carrier per route (relay, mesh, upstream server, chat platform).

An outbox takes a mapping from `Route` to `Carrier`. Adding a route means adding a carrier to that mapping.
"""

from typing import NamedTuple, Protocol

from restante.model.ids import NodeId
from restante.model.journal import StorageReceipt
from restante.model.outbox_entry import OutboxEntry


class StoredByNode(NamedTuple):
    """A node's verified storage receipt for one attempt, as it is journaled (SPEC 7.8)."""

    node: NodeId
    receipt: StorageReceipt


class Withdrawn(Exception):
    """The entry must not be sent any more, although nothing failed: it belongs to a group that was given up."""


class Carrier(Protocol):
    """Sends the entries of one route.

    The payload of a mail entry is its sealed bytes. The carrier builds what the next hop expects from it, for each
    attempt: an envelope with inbox key and rounded expiry for a relay or storage node.
    """

    def is_up(self) -> bool:
        """Return whether any lane of this route can be tried now. No entry is leased on a route that is down."""
        ...

    def is_connected(self, lane: str) -> bool:
        """Return whether an attempt on this lane makes sense now. Entries of a lane that is down are not leased."""
        ...

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        """Return once the next hop has accepted the entry, with every signed storage acknowledgement it gave.

        A relay gives one, the mesh several, a chat platform or an upstream server none. Raises `AttemptFailed` if no
        hop accepted the entry, `Withdrawn` if it must not be sent any more.
        """
        ...
