"""Whatever takes outbox entries one step further: a mesh, a relay link, a chat platform."""

from typing import NamedTuple, Protocol

from restante.core.signed_acks import Evidence
from restante.model.ids import NodeId
from restante.model.outbox_entry import OutboxEntry


class StoredByNode(NamedTuple):
    """A node's signed word that it holds the entry; `node` is who, where that is known (SPEC 7.8)."""

    evidence: Evidence
    node: NodeId | None


class Withdrawn(Exception):
    """It is not to be sent any more, although nothing failed: it belongs to something that was given up."""


class Carrier(Protocol):
    """One route's way out."""

    def is_up(self) -> bool:
        """Whether anything can leave on this route now; while it is down, none of its entries is looked at."""
        ...

    def is_connected(self, lane: str) -> bool:
        """Whether a try on this lane makes sense now. Entries of a lane that is down use up none of their tries."""
        ...

    async def transmit(self, entry: OutboxEntry) -> StoredByNode | None:
        """Returns once the next hop has accepted the entry, with its signed word if it gives one.

        Raises `TryFailed` otherwise, or `Withdrawn`.
        """
        ...
