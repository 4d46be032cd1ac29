"""Checkpoints the write-ahead log of a busy file in a thread, not within a commit.

SQLite's automatic checkpoint runs within the commit that made the log too long, which then takes tens of times as long
as any other. Here a thread with a separate connection moves nearly all pages while commits continue. The next commit
moves the few that were added since, so that the log starts again at its beginning.
"""

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor

from restante.model.errors import StoreUnusable
from restante.runtime.sqlite.file.database import CHECKPOINT_PAGES, Database


class Checkpoints:
    """Checkpoints for the one writer of a file in this process. Close it before the writer's connection.

    A checkpoint that fails is tried again after a later commit. Nothing is lost by it: the log is on disk (SPEC 1.3).
    """

    def __init__(self, database: Database, *, schema: str, pages: int | None = None) -> None:
        self._database = database
        self._own = Database(database.path, schema=schema)
        self._pages = pages or CHECKPOINT_PAGES[schema]
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="restante-checkpoint")
        self._in_progress: Future[None] | None = None
        database.watch_log(self._on_commit)

    def close(self) -> None:
        """Wait for the checkpoint in progress. From then on the writer's commits checkpoint the log."""
        self._database.watch_log(self._checkpoint_here)
        self._thread.shutdown()
        self._own.close()

    def _on_commit(self, pages: int) -> None:
        """Start or finish a checkpoint if the log is long. The committing thread calls this after each commit."""
        if pages < self._pages:
            return
        if self._in_progress is None:
            self._in_progress = self._thread.submit(_try_checkpoint, self._own)
        elif self._in_progress.done():
            self._in_progress = None
            _try_checkpoint(self._database)

    def _checkpoint_here(self, pages: int) -> None:
        if pages >= self._pages:
            _try_checkpoint(self._database)


def _try_checkpoint(database: Database) -> None:
    with contextlib.suppress(StoreUnusable):
        database.checkpoint()
