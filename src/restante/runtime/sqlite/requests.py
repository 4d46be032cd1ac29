"""Requests in SQLite: sealed envelopes of people who are no contacts, and whom the user has blocked."""

from typing import Final, NamedTuple

from restante.model.ids import Address, PayloadHash
from restante.policy.quota import REQUESTS_KEPT_MS, RequestUsage, may_keep_request
from restante.ports.relay_connection import StoredBlob
from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("requests")


class RequestSummary(NamedTuple):
    """What one stranger wrote; the text stays sealed until the request is accepted."""

    sender: Address
    messages: int
    size_bytes: int
    first_at_ms: int
    last_at_ms: int


class RequestStore:
    """Methods are called inside a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, sender: Address, payload_hash: PayloadHash, blob: StoredBlob, *, now_ms: int) -> bool:
        """Keep one envelope as it came; return whether there was room for it."""
        if self._database.rows(_SQL["is_known"], payload_hash):
            return True
        [usage] = self._database.rows(_SQL["usage"], sender)
        if not may_keep_request(RequestUsage(*usage), size_bytes=len(blob.envelope)):
            return False
        self._database.rows(_SQL["add"], sender, payload_hash, now_ms, blob.stored_at_ms, blob.envelope)
        return True

    def all(self) -> list[RequestSummary]:
        """Return the requests, the oldest first."""
        return [
            RequestSummary(Address(sender), messages, size_bytes, first_at_ms, last_at_ms)
            for sender, messages, size_bytes, first_at_ms, last_at_ms in self._database.rows(_SQL["list"])
        ]

    def senders(self) -> list[Address]:
        return [Address(sender) for (sender,) in self._database.rows(_SQL["senders"])]

    def of_sender(self, sender: Address) -> list[StoredBlob]:
        """Return what this stranger wrote, in the order in which it came."""
        return [StoredBlob(*row) for row in self._database.rows(_SQL["of_sender"], sender)]

    def forget(self, sender: Address) -> None:
        self._database.rows(_SQL["forget"], sender)

    def block(self, sender: Address, *, now_ms: int) -> None:
        """Delete what this stranger wrote, and keep nothing of it from now on."""
        self.forget(sender)
        self._database.rows(_SQL["block"], sender, now_ms)

    def is_blocked(self, sender: Address) -> bool:
        return bool(self._database.rows(_SQL["is_blocked"], sender))

    def sweep(self, *, now_ms: int) -> None:
        """Delete requests that were not answered within 30 days."""
        self._database.rows(_SQL["sweep"], now_ms - REQUESTS_KEPT_MS)
