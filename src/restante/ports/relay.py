"""A relay as a client sees it, and a relay's store as the relay sees it."""

from dataclasses import dataclass
from typing import Protocol

from restante.core.mailbox import Keep, Usage
from restante.model.errors import RestanteError
from restante.model.ids import InboxKey
from restante.policy.failures import FAILURE_RULES, Failure
from restante.wire.acks import Ack


class TryFailed(RestanteError):
    """One try to hand something over failed; what follows is policy's to say."""

    def __init__(self, text: str, *, failure: Failure, retry_after_ms: int | None = None) -> None:
        super().__init__(text, code=FAILURE_RULES[failure].code)
        self.failure = failure
        self.retry_after_ms = retry_after_ms


class LinkLost(TryFailed):
    """The connection itself is gone: nothing more can be done over this link."""

    def __init__(self) -> None:
        super().__init__("the connection to the relay is gone", failure=Failure.CONNECTION_REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One envelope as a relay holds it."""

    blob_id: int
    stored_at_ms: int
    envelope: bytes


class RelayLink(Protocol):
    """A connection to one relay.

    Every call raises `TryFailed` when the answer is a refusal or does not come, and `LinkLost` once the link is gone.
    """

    async def put(self, envelope: bytes) -> Ack:
        """The relay's signed word that the envelope is on its disk."""
        ...

    async def next_blob(self) -> Blob:
        """The next envelope held for the identity that opened this link."""
        ...

    async def delete(self, blob_id: int) -> None:
        """Tell the relay that the blob has arrived and may go."""
        ...

    async def close(self) -> None: ...


class MailboxStore(Protocol):
    """The four operations of a relay's store (SPEC 6.1), and the usage its quotas need."""

    def put(self, keep: Keep, envelope: bytes, *, now_ms: int) -> int:
        """Durable when it returns. Never deduplicates."""
        ...

    def usage(self, inbox: InboxKey) -> Usage: ...

    def flush(self, inbox: InboxKey, *, after: int, limit: int, now_ms: int) -> list[Blob]:
        """Live blobs with an id above `after`, in insertion order; nothing is deleted."""
        ...

    def delete(self, inbox: InboxKey, blob_id: int, *, now_ms: int) -> bool:
        """Whether there was such a blob *in this inbox*."""
        ...

    def reap(self, *, now_ms: int) -> int:
        """How many blobs had lived out their time; all of them are gone."""
        ...
