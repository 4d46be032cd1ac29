"""Ship a client's journal while the client runs, if a segment store is configured, and prune it (SPEC 13.1)."""

import asyncio

from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.runtime.journal.key_file import journal_key
from restante.runtime.journal.pruner import JournalPruner
from restante.runtime.journal.shipper import Shipper, ShippingStats, shipping_to
from restante.runtime.sqlite.file.client_file import ClientFile


class ClientShipping:
    """Ships and prunes between `start` and `finish`; without `ship_to` it only prunes."""

    def __init__(
        self,
        ship_to: str | None,
        file: ClientFile,
        *,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._pruner = JournalPruner(file.database, commits=file.commits, clock=clock, is_shipped=ship_to is not None)
        self._pruning: asyncio.Task[None] | None = None
        self._shipper: Shipper | None = None
        if ship_to is not None:
            self._shipper = Shipper(
                file.database,
                file.journal,
                shipping_to(ship_to, journal_key(file.database.path, entropy)),
                schema="client",
                commits=file.commits,
                settings=settings.journal,
                clock=clock,
                entropy=entropy,
            )

    def start(self) -> None:
        """A second time changes nothing."""
        if self._pruning is None:
            self._pruning = asyncio.create_task(self._pruner.run())
        if self._shipper is not None:
            self._shipper.start()

    async def finish(self) -> None:
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.gather(self._pruning, return_exceptions=True)
        if self._shipper is not None:
            await self._shipper.finish()

    def stats(self) -> ShippingStats | None:
        """Return the counters of shipping; None where nothing is shipped."""
        return None if self._shipper is None else self._shipper.stats()
