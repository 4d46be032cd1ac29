"""Requests: what people write who are no contacts. It is kept, bounded, until the user accepts or blocks them.

Accepting means adding the contact. Then what it wrote is received as if it came now, in order, and acknowledged.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from restante.client.contacts import ContactBook
from restante.client.security_events import SecurityEvents
from restante.core.deduplication import UnsealedHeader
from restante.core.session_messages import UnsealedMessage
from restante.crypto.identity import verify_card
from restante.crypto.sender_tag import SenderTags
from restante.model.errors import RestanteError
from restante.model.ids import Address
from restante.ports.relay_connection import StoredBlob
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.runtime.sqlite.requests import RequestStore, RequestSummary

UNKNOWN_SENDER: Final = "unknown_sender"
"""Security event: bytes that claim to be of somebody who is no contact and do not prove it."""
REQUEST_REFUSED: Final = "request_refused"
"""Security event: a stranger wrote more than is kept. Its message was not acknowledged; it may come again."""


class Requests:
    """The requests of one client. `keep` is called inside a transaction."""

    def __init__(self, file: ClientFile, *, contacts: ContactBook, tags: SenderTags, security: SecurityEvents) -> None:
        self._file = file
        self._store = RequestStore(file.database)
        self._contacts = contacts
        self._tags = tags
        self._security = security

    def keep(self, arrival: UnsealedMessage, header: UnsealedHeader, blob: StoredBlob, *, now_ms: int) -> None:
        """Keep mail of a stranger who proves its address; report everything else."""
        sender = arrival.message.sender
        if self._store.is_blocked(sender):
            return
        if not self._is_authentic(arrival):
            self._security.suspect(UNKNOWN_SENDER, now_ms=now_ms, outside=header)
        elif not self._store.keep(sender, arrival.payload_hash, blob, now_ms=now_ms):
            self._security.suspect(REQUEST_REFUSED, now_ms=now_ms, outside=header)

    async def all(self) -> list[RequestSummary]:
        """Return who wrote, the oldest request first."""
        return await self._file.run(self._store.all)

    async def block(self, sender: Address, *, now_ms: int) -> None:
        """Delete what this stranger wrote, and keep nothing of it from now on."""
        await self._file.run(partial(self._store.block, sender, now_ms=now_ms))

    async def deliver_accepted(self, receive: Callable[[Sequence[StoredBlob]], Awaitable[object]]) -> None:
        """Receive what people wrote before they became contacts, in order."""
        for sender in await self._file.run(self._store.senders):
            if self._contacts.get(sender) is not None:
                await receive(await self._file.run(partial(self._store.of_sender, sender)))
                await self._file.run(partial(self._store.forget, sender))

    def sweep(self, *, now_ms: int) -> None:
        self._store.sweep(now_ms=now_ms)

    def _is_authentic(self, arrival: UnsealedMessage) -> bool:
        """A first message carries the sender's card, signed by its address, and a tag made with the card's key."""
        opening = arrival.message.opening
        if opening is None or opening.card.address != arrival.message.sender:
            return False
        try:
            card = verify_card(opening.card)
        except RestanteError:
            return False
        return self._tags.is_valid(arrival.tag, arrival.tagged, sender=card)
