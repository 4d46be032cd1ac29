"""Newer prekeys and places of contacts, fetched from the mesh where they publish them (SPEC 7.6, 8.8).

Contacts that talk tell each other inside the session. This is for the others: prekeys older than 37 days open none.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final

from restante.client.composition import ClientParts
from restante.client.contacts import Contact, ContactBook
from restante.client.mesh.host import MeshHost
from restante.client.sessions.prekey_renewal import newest_known
from restante.model.errors import RestanteError
from restante.model.places import MeshPlace
from restante.policy.mesh.time_buckets import DAY_MS
from restante.ports.clock import Clock
from restante.ports.relay_connection import AttemptFailed

STALE_MS: Final = 8 * DAY_MS
"""Owners renew prekeys after 7 days."""
INTERVAL_S: Final = 6 * 3_600.0
RETRY_S: Final = 600.0


class ContactKeys:
    """`open_mesh` reaches the mesh while the client does not run; it raises if the client knows no mesh."""

    def __init__(
        self, parts: ClientParts, contacts: ContactBook, *, open_mesh: Callable[[], MeshHost], clock: Clock
    ) -> None:
        self._parts = parts
        self._contacts = contacts
        self._open_mesh = open_mesh
        self._clock = clock
        self._running: MeshHost | None = None

    async def refresh(self, contact: Contact) -> bool:
        """Fetch what a contact publishes, and keep what is newer; return whether its prekeys are.

        Raises E005 if it publishes nothing, E003 if too few nodes answer.
        """
        if MeshPlace() not in contact.places.places:
            return False
        async with contextlib.AsyncExitStack() as stack:
            running = self._running
            mesh = await stack.enter_async_context(self._open_mesh()) if running is None else running
            found = await mesh.prekeys.fetch(contact.address)
        keep = partial(self._parts.renewal.keep, contact.address, found, now_ms=self._clock.now_ms())
        return await self._parts.file.run(keep)

    async def keep_fresh(self, mesh: MeshHost) -> None:
        """Refresh contacts whose prekeys are old, one after the other, every six hours until cancelled."""
        self._running = mesh
        try:
            while True:
                wait_s = INTERVAL_S
                for contact in await self._parts.file.run(self._stale):
                    try:
                        await self.refresh(contact)
                    except AttemptFailed:
                        wait_s = RETRY_S  # no node was asked, or too few answered
                    except RestanteError:
                        continue  # it publishes nothing, or nothing that can be used
                await asyncio.sleep(wait_s)
        finally:
            self._running = None

    def _stale(self) -> list[Contact]:
        now_ms = self._clock.now_ms()
        return [
            contact
            for contact in self._contacts
            if MeshPlace() in contact.places.places
            and _is_stale(newest_known(contact, self._parts.prekeys, now_ms=now_ms).prekey_created_at_ms, now_ms)
        ]


def _is_stale(created_at_ms: int, now_ms: int) -> bool:
    """Return whether newer prekeys are to be had. Those of a clock that was far ahead would never get old."""
    return not now_ms - STALE_MS < created_at_ms <= now_ms + DAY_MS
