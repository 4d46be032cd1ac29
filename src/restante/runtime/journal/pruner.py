"""Prunes a journal once an hour beside other work, in a node or a client (SPEC 13.1)."""

import asyncio
import contextlib
from functools import partial

from restante.model.errors import StoreUnusable
from restante.policy.shipping import HOUR_MS
from restante.ports.clock import Clock
from restante.ports.commit_queue import CommitQueue
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal_pruning import EVENTS_PER_PRUNE, prune


class JournalPruner:
    """Prunes one file's journal while `run` runs."""

    def __init__(self, database: Database, *, commits: CommitQueue, clock: Clock, is_shipped: bool) -> None:
        self._database = database
        self._commits = commits
        self._clock = clock
        self._is_shipped = is_shipped

    async def run(self) -> None:
        """Prune until it is cancelled. A store that cannot be written is tried again an hour later."""
        while True:
            with contextlib.suppress(StoreUnusable):
                await self.prune_all()
            await asyncio.sleep(HOUR_MS / 1_000)

    async def prune_all(self) -> int:
        """Delete every event that is old enough, some in each transaction, and return how many."""
        total = 0
        while True:
            work = partial(prune, self._database, now_ms=self._clock.now_ms(), is_shipped=self._is_shipped)
            deleted = await self._commits.run(work)
            total += deleted
            if deleted < EVENTS_PER_PRUNE:
                return total
