"""Senders that wait for space in a full outbox (SPEC 3.6): in the order in which they came, lane by lane."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from restante.client.application.argument_checks import check_seconds
from restante.model.errors import OutboxFull
from restante.model.states import Route
from restante.runtime.event_wait import set_or_after

LOOK_AGAIN_S: Final = 1.0
"""Another process that uses the file may have made space without waking anybody here."""


class SpaceQueue:
    """Of the senders to one lane only the first tries again; the others wait behind it."""

    def __init__(self) -> None:
        self._space = asyncio.Event()
        self._locks: dict[tuple[Route, str], asyncio.Lock] = {}

    def wake(self) -> None:
        """Something changed: there may be space."""
        self._space.set()

    async def run(
        self, accept: Callable[[], Awaitable[None]], lanes: Iterable[tuple[Route, str]], *, deadline_s: float
    ) -> None:
        """Run `accept` until it is not refused with `OutboxFull`; raise the refusal after `deadline_s` seconds."""
        check_seconds("deadline_s", deadline_s)
        lane = min(lanes)
        lock = self._locks.get(lane)
        if lock is None or not lock.locked():
            with contextlib.suppress(OutboxFull):
                return await accept()
            lock = self._locks.setdefault(lane, asyncio.Lock())
        refusal: OutboxFull | None = None
        try:
            async with asyncio.timeout(deadline_s), lock:
                while True:
                    self._space.clear()
                    try:
                        return await asyncio.shield(accept())
                    except OutboxFull as full:
                        refusal = full
                    await set_or_after(self._space, LOOK_AGAIN_S)
        except TimeoutError:
            if refusal is None:
                return await accept()  # its turn never came: one try of its own decides
            raise refusal from None
        finally:
            if not lock.locked():
                self._locks.pop(lane, None)
