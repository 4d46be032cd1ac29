"""A client's journal leaves by itself, where a place for it is named (SPEC 13.1)."""

from restante.client.outbox import Outbox
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.runtime.journal.shipper import Shipper, ShippingFigures, shipping_to
from restante.runtime.sqlite.file.database import Database


class ClientShipping:
    """From the first `start` to `finish`; without `ship_to` nothing of it does anything."""

    def __init__(
        self,
        ship_to: str | None,
        database: Database,
        outbox: Outbox,
        *,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._shipper: Shipper | None = None
        if ship_to is not None:
            self._shipper = Shipper(
                database,
                outbox.journal,
                shipping_to(ship_to),
                schema="client",
                commits=outbox.commits,
                settings=settings.journal,
                clock=clock,
                entropy=entropy,
            )

    def start(self) -> None:
        if self._shipper is not None:
            self._shipper.start()

    async def finish(self) -> None:
        if self._shipper is not None:
            await self._shipper.finish()

    def figures(self) -> ShippingFigures | None:
        """How it fares; None where nothing is shipped."""
        return None if self._shipper is None else self._shipper.figures()
