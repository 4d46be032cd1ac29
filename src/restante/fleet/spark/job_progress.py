"""Reports the progress of running Spark jobs to the view that shows it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """A named step, and how many of the tasks that Spark has planned for it so far are done."""

    step: str
    done: int
    total: int


Watcher = Callable[[JobProgress], None]


def ignore_progress(_: JobProgress) -> None:
    """For callers that show nothing."""


@contextmanager
def watched(spark: SparkSession, step: str, tell: Watcher) -> Iterator[None]:
    """Tell of the tasks under way while the block runs; at its end, that the step is done."""
    tracker = spark.sparkContext.statusTracker()
    over = threading.Event()
    seen: dict[int, tuple[int, int]] = {}

    def look() -> None:
        while not over.wait(POLL_S):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    seen[stage] = (info.numCompletedTasks, info.numTasks)
            done, total = (sum(column) for column in zip(*seen.values(), strict=True)) if seen else (0, 0)
            tell(JobProgress(step=step, done=done, total=total))

    tell(JobProgress(step=step, done=0, total=0))
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    tell(JobProgress(step=step, done=1, total=1))
