"""The log of a busy file is emptied beside its commits, not by one of them.

SQLite moves the log's pages into the file within the commit that made it too long, which then takes tens of times as
long as any other. Here a thread with a connection of its own moves nearly all of them while commits go on; the commit
after that moves the few that came meanwhile, so that the log begins anew. Knows nothing of what is stored.
"""

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor

from restante.model.errors import StoreUnusable
from restante.runtime.sqlite.file.database import CHECKPOINT_PAGES, Database


class Checkpoints:
    """For the one writer of a file in this process; to be closed before it.

    A checkpoint that fails is tried again after a later commit: what is in the log is on disk (SPEC 1.3).
    """

    def __init__(self, database: Database, *, schema: str, pages: int | None = None) -> None:
        self._database = database
        self._own = Database(database.path, schema=schema)
        self._pages = pages or CHECKPOINT_PAGES[schema]
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="restante-checkpoint")
        self._under_way: Future[None] | None = None
        database.watch_log(self._look)

    def close(self) -> None:
        """Returns when none is under way; from then on the writer empties the log by itself."""
        self._database.watch_log(self._checkpoint_here)
        self._thread.shutdown()
        self._own.close()

    def _look(self, pages: int) -> None:
        """Called by the committing thread, with the commit on disk."""
        if pages < self._pages:
            return
        if self._under_way is None:
            self._under_way = self._thread.submit(_try_checkpoint, self._own)
        elif self._under_way.done():
            self._under_way = None
            _try_checkpoint(self._database)

    def _checkpoint_here(self, pages: int) -> None:
        if pages >= self._pages:
            _try_checkpoint(self._database)


def _try_checkpoint(database: Database) -> None:
    with contextlib.suppress(StoreUnusable):
        database.checkpoint()
