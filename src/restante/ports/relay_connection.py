"""A relay as a client sees it, and a relay's store as the relay sees it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from restante.core.mailbox import Keep, Usage
from restante.core.signed_acks import Evidence
from restante.model.errors import RestanteError
from restante.model.ids import InboxKey
from restante.policy.failures import FAILURE_RULES, Failure
from restante.policy.quota import MailboxQuota, Refusal


class AttemptFailed(RestanteError):
    """One try to hand something over failed; what follows is policy's to say."""

    def __init__(self, text: str, *, failure: Failure, retry_after_ms: int | None = None) -> None:
        super().__init__(text, code=FAILURE_RULES[failure].code)
        self.failure = failure
        self.retry_after_ms = retry_after_ms


class ConnectionLost(AttemptFailed):
    """The connection itself is gone: nothing more can be done over this link."""

    def __init__(self) -> None:
        super().__init__("the connection to the relay is gone", failure=Failure.CONNECTION_REFUSED)


class StoredBlob(NamedTuple):
    """One envelope as a relay holds it. A tuple: tens of thousands are made a second."""

    blob_id: int
    stored_at_ms: int
    envelope: bytes


class RelayConnection(Protocol):
    """A connection to one relay.

    Every call raises `AttemptFailed` when the answer is a refusal or does not come, and `ConnectionLost` once the
    connection is gone.
    """

    async def put(self, envelope: bytes) -> Evidence:
        """The relay's signed word that the envelope is on its disk, perhaps together with others of this link."""
        ...

    async def next_blob(self) -> StoredBlob:
        """The next envelope held for the identity that opened this link."""
        ...

    async def next_blobs(self) -> list[StoredBlob]:
        """All that have come by now, at least one."""
        ...

    async def delete(self, blob_id: int) -> None:
        """Tell the relay that the blob has arrived and may go."""
        ...

    async def delete_many(self, blob_ids: Sequence[int]) -> None:
        """The same for several, up to 1,024 in one request."""
        ...

    async def lost(self) -> None:
        """Returns once the link is gone."""
        ...

    async def close(self) -> None: ...


class MailboxStore(Protocol):
    """The four operations of a relay's store (SPEC 6.1), for many at once, and the usage its quotas need.

    What changes is durable when the call returns, or with the commit it is made part of. All raise `StoreUnusable`.
    """

    def put_all(self, keeps: Sequence[Keep], *, quota: MailboxQuota, now_ms: int) -> list[int | Refusal]:
        """For each its id, or why there was no room. Never deduplicates; nothing is evicted, expired blobs go first."""
        ...

    def usage(self, inbox: InboxKey) -> Usage:
        """What is in store, the expired that were not swept yet included."""
        ...

    def flush(self, inbox: InboxKey, *, after: int, limit: int, max_bytes: int, now_ms: int) -> list[StoredBlob]:
        """Live blobs with an id above `after`, in insertion order; nothing is deleted.

        At most `limit`, and no more than `max_bytes` of envelopes unless the first alone is larger. Only what is
        committed is seen.
        """
        ...

    def delete_all(self, inbox: InboxKey, blob_ids: Sequence[int], *, now_ms: int) -> int:
        """How many of these there were *in this inbox*; they are gone."""
        ...

    def reap(self, *, now_ms: int, limit: int | None = None) -> int:
        """How many blobs that had lived out their time were removed: all of them, or the first `limit`."""
        ...
