"""Shipping that goes on beside other work, in a node or a client (SPEC 13.1).

Decides when the next segment is written and what becomes of one that cannot be: the events stay in the journal and are
tried again, so nothing is lost by it. Events are read through a connection of their own and packed and written in a
thread; only the mark of what was shipped goes through the file's one writer.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from restante.model.errors import EnvironmentUnsuitable
from restante.policy.shipping import JournalShipping, next_shipping_ms
from restante.ports.clock import Clock
from restante.ports.commit_queue import CommitQueue
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal

FINISH_S: Final = 5.0
"""How long the end of a process waits for its last events to leave; the next start ships what did not."""


Result = TypeVar("Result")


class Shipped(Protocol):
    """A segment that is in its depot."""

    @property
    def rows(self) -> int: ...
    @property
    def last(self) -> int: ...


class ShipNext(Protocol):
    """Puts the oldest events that have not left into a segment; None when all have left."""

    def __call__(self, journal: Journal, /) -> Shipped | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippingFigures:
    """Since the start of the process. `waiting` is what had not left when that was last looked at."""

    facts_total: int = 0
    segments_total: int = 0
    failures_total: int = 0
    failures_in_a_row: int = 0
    waiting: int = 0
    last_at_ms: int | None = None

    @property
    def is_failing(self) -> bool:
        return self.failures_in_a_row > 0


class Shipper:
    """Ships one file's journal from `start` to `finish`. `on_trouble` is told each failure, `on_recovery` the end of a
    row of them."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        ship_next: ShipNext,
        *,
        schema: str,
        commits: CommitQueue,
        settings: JournalShipping,
        clock: Clock,
        entropy: Entropy,
        on_trouble: Callable[[Exception], None] = lambda _problem: None,
        on_recovery: Callable[[], None] = lambda: None,
    ) -> None:
        self._journal = journal
        self._commits = commits
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._on_trouble = on_trouble
        self._on_recovery = on_recovery
        self._reader = _Reader(database.path, schema, ship_next, entropy)
        self._figures = ShippingFigures()
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def figures(self) -> ShippingFigures:
        return replace(self._figures, waiting=self._reader.waiting)

    def start(self) -> asyncio.Task[None]:
        """A second time changes nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._ship_on_and_on())
        return self._task

    async def finish(self, within_s: float = FINISH_S) -> None:
        """Ship what there is, once more, and end; after `within_s` at the latest."""
        self._ending.set()
        task = self.start()
        await asyncio.wait({task}, timeout=within_s)
        if task.done():
            self._reader.close()
        # Else its thread hangs in a write. It ends with the process, and so does its connection.
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _ship_on_and_on(self) -> None:
        while True:
            is_last = self._ending.is_set()
            await self._try_to_ship()
            if is_last:
                return
            failures, dice = self._figures.failures_in_a_row, self._entropy.dice()
            await self._pause(next_shipping_ms(self._settings, failures=failures, dice=dice) / 1_000)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def _try_to_ship(self) -> None:
        try:
            while (segment := await _aside(self._reader.ship_next)) is not None:
                await self._commits.run(partial(self._mark, segment.last))
                self._count(segment)
        except Exception as problem:  # noqa: BLE001 - whatever it is, it must not stop what the process is for
            figures = self._figures
            self._figures = replace(
                figures, failures_total=figures.failures_total + 1, failures_in_a_row=figures.failures_in_a_row + 1
            )
            self._on_trouble(problem)
            return
        was_failing = self._figures.is_failing
        self._figures = replace(self._figures, failures_in_a_row=0)
        if was_failing:
            self._on_recovery()

    def _mark(self, last: int) -> None:
        """Another process that ships the same file may be further."""
        if last > self._journal.shipped_through():
            self._journal.mark_shipped(last)

    def _count(self, segment: Shipped) -> None:
        figures = self._figures
        self._figures = replace(
            figures,
            facts_total=figures.facts_total + segment.rows,
            segments_total=figures.segments_total + 1,
            last_at_ms=self._clock.now_ms(),
        )


class _Reader:
    """The file seen through a connection of its own, which keeps no writer waiting. Used by one thread at a time."""

    def __init__(self, path: Path, schema: str, ship_next: ShipNext, entropy: Entropy) -> None:
        # Now, not later: a file that takes the place of ours must not be read for it.
        self._database = Database(path, schema=schema, read_only=True)
        self._journal = Journal(self._database, entropy)
        self._ship_next = ship_next
        self.waiting = 0

    def ship_next(self) -> Shipped | None:
        self.waiting = self._journal.last_number() - self._journal.shipped_through()
        return self._ship_next(self._journal)

    def close(self) -> None:
        self._database.close()


def shipping_to(address: str) -> ShipNext:
    """What ships to the depot that the setting journal.ship_to names. Only who ships needs pyarrow, and is told so."""
    try:
        from restante.runtime.journal.object_store import open_depot  # noqa: PLC0415 - the same
        from restante.runtime.journal.segment_writer import ship_next  # noqa: PLC0415 - pyarrow is not everybody's
    except ImportError as missing:
        raise EnvironmentUnsuitable("journal.ship_to needs pyarrow: pip install 'restante[fleet]'") from missing
    return partial(ship_next, open_depot(address, key="journal.ship_to"))


async def _aside(work: Callable[[], Result]) -> Result:
    """In a thread that does not keep the process alive: a depot that hangs must not keep a node from ending."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Result] = loop.create_future()

    def run() -> None:
        tell: Callable[[], None]
        try:
            tell = partial(answer.set_result, work())
        except BaseException as problem:  # noqa: BLE001 - raised again where it is waited for
            tell = partial(answer.set_exception, problem)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(lambda: None if answer.done() else tell())

    threading.Thread(target=run, name="restante-shipping", daemon=True).start()
    return await answer
