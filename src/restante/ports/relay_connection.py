"""A connection to one relay, as a client sees it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from restante.model.errors import RestanteError
from restante.policy.failures import FAILURE_RULES, Failure
from restante.wire.storage_receipts import StorageReceipt


class AttemptFailed(RestanteError):
    """One attempt to hand over a message failed. `failure` selects the retry rule in `policy.failures`."""

    def __init__(self, text: str, *, failure: Failure, retry_after_ms: int | None = None, reached: bool = True) -> None:
        """`reached` is False if no connection to a node of the place was made (SPEC 4.3)."""
        super().__init__(text, code=FAILURE_RULES[failure].code)
        self.failure = failure
        self.retry_after_ms = retry_after_ms
        self.reached = reached


class ConnectionLost(AttemptFailed):
    """The connection has ended; every later call on it raises this."""

    def __init__(self) -> None:
        super().__init__("the connection to the node is gone", failure=Failure.NETWORK_TIMEOUT)


class StoredBlob(NamedTuple):
    """One envelope as a node stores it. A tuple, because a node reads tens of thousands a second."""

    blob_id: int
    stored_at_ms: int
    envelope: bytes


class RelayConnection(Protocol):
    """A connection to one relay.

    Every call raises `AttemptFailed` when the relay refuses or does not answer in time, and `ConnectionLost` once the
    connection has ended.
    """

    async def put(self, envelope: bytes) -> StorageReceipt:
        """Store the envelope. Return the relay's storage receipt, verified for exactly these bytes (SPEC 10.2)."""
        ...

    async def next_blob(self) -> StoredBlob:
        """Return the next blob of the subscription of this connection."""
        ...

    async def next_blobs(self) -> list[StoredBlob]:
        """Return all blobs that have arrived, at least one."""
        ...

    async def delete(self, blob_id: int) -> None:
        """Delete one blob of the subscribed mailbox."""
        ...

    async def delete_many(self, blob_ids: Sequence[int]) -> None:
        """Delete up to 1,024 blobs with one request."""
        ...

    async def lost(self) -> None:
        """Return once the connection has ended."""
        ...

    async def close(self) -> None: ...
