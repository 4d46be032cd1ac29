"""Ships a node's or a client's journal in the background (SPEC 13.1).

Decides when the next segment is written. If writing fails, the events stay in the journal and are tried again. Events
are read on a separate connection, and packed and written in a thread. Only the mark of what was shipped goes through
the file's one writer.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from restante.crypto.journal_key import JournalKey
from restante.model.errors import EnvironmentUnsuitable
from restante.policy.shipping import JournalShipping, next_shipping_ms
from restante.ports.clock import Clock
from restante.ports.commit_queue import CommitQueue
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal

FINISH_S: Final = 5.0
"""How long a stopping process waits until its last events are shipped. The next start ships the rest."""


Result = TypeVar("Result")


class Shipped(Protocol):
    """A segment that is in its segment store."""

    @property
    def rows(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def digest(self) -> bytes: ...


class ShipNext(Protocol):
    """Write the oldest unshipped events as one segment; return None if all are shipped."""

    def __call__(self, journal: Journal, /) -> Shipped | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippingStats:
    """Counters since the start of the process. `waiting` is the number of unshipped events at the last attempt."""

    events_total: int = 0
    segments_total: int = 0
    failures_total: int = 0
    failures_in_a_row: int = 0
    waiting: int = 0
    last_at_ms: int | None = None

    @property
    def is_failing(self) -> bool:
        return self.failures_in_a_row > 0


class Shipper:
    """Ships one file's journal from `start` to `finish`.

    Calls `on_trouble` at each failure and `on_recovery` at the first success after failures.
    """

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
        self._stats = ShippingStats()
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def stats(self) -> ShippingStats:
        return replace(self._stats, waiting=self._reader.waiting)

    def start(self) -> asyncio.Task[None]:
        """Start shipping and return its task. Calling it again returns the same task."""
        if self._task is None:
            self._task = asyncio.create_task(self._ship_on_and_on())
        return self._task

    async def finish(self, within_s: float = FINISH_S) -> None:
        """Ship the remaining events and stop, after `within_s` at the latest."""
        self._ending.set()
        task = self.start()
        await asyncio.wait({task}, timeout=within_s)
        if task.done():
            self._reader.close()
        # Otherwise its thread hangs in a write. Thread and connection end with the process.
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _ship_on_and_on(self) -> None:
        while True:
            is_last = self._ending.is_set()
            await self._try_to_ship()
            if is_last:
                return
            failures, dice = self._stats.failures_in_a_row, self._entropy.dice()
            await self._pause(next_shipping_ms(self._settings, failures=failures, dice=dice) / 1_000)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def _try_to_ship(self) -> None:
        try:
            while (segment := await _aside(self._reader.ship_next)) is not None:
                await self._commits.run(partial(self._mark, segment))
                self._count(segment)
        except Exception as problem:  # noqa: BLE001 - no failure of shipping may stop the process
            stats = self._stats
            self._stats = replace(
                stats, failures_total=stats.failures_total + 1, failures_in_a_row=stats.failures_in_a_row + 1
            )
            self._on_trouble(problem)
            return
        was_failing = self._stats.is_failing
        self._stats = replace(self._stats, failures_in_a_row=0)
        if was_failing:
            self._on_recovery()

    def _mark(self, segment: Shipped) -> None:
        """Another process that ships the same file may be further."""
        if segment.last > self._journal.shipped_through():
            self._journal.mark_shipped(segment.last, manifest=segment.digest, at_ms=self._clock.now_ms())

    def _count(self, segment: Shipped) -> None:
        stats = self._stats
        self._stats = replace(
            stats,
            events_total=stats.events_total + segment.rows,
            segments_total=stats.segments_total + 1,
            last_at_ms=self._clock.now_ms(),
        )


class _Reader:
    """Reads the file on a separate connection, which delays no writer. One thread uses it at a time."""

    def __init__(self, path: Path, schema: str, ship_next: ShipNext, entropy: Entropy) -> None:
        # Opened now: if another file replaces ours later, this connection still reads ours.
        self._database = Database(path, schema=schema, read_only=True)
        self._journal = Journal(self._database, entropy)
        self._ship_next = ship_next
        self.waiting = 0

    def ship_next(self) -> Shipped | None:
        self.waiting = self._journal.last_number() - self._journal.shipped_through()
        return self._ship_next(self._journal)

    def close(self) -> None:
        self._database.close()


def shipping_to(address: str, key: JournalKey | None = None) -> ShipNext:
    """Return what ships to the depot that the setting journal.ship_to names and signs with `key`; it needs pyarrow."""
    try:
        from restante.runtime.journal.object_store import open_depot  # noqa: PLC0415 - needs pyarrow
        from restante.runtime.journal.segment_writer import ship_next  # noqa: PLC0415 - needs pyarrow
    except ImportError as missing:
        raise EnvironmentUnsuitable("journal.ship_to needs pyarrow: pip install 'restante[fleet]'") from missing
    return partial(ship_next, open_depot(address, key="journal.ship_to"), key=key)


async def _aside(work: Callable[[], Result]) -> Result:
    """Run `work` in a daemon thread, so that a segment store that hangs cannot keep the process from ending."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Result] = loop.create_future()

    def run() -> None:
        report: Callable[[], None]
        try:
            report = partial(answer.set_result, work())
        except BaseException as problem:  # noqa: BLE001 - raised again in the awaiting task
            report = partial(answer.set_exception, problem)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: None if answer.done() else report())

    threading.Thread(target=run, name="restante-shipping", daemon=True).start()
    return await answer
