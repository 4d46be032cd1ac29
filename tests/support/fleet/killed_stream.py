"""A stream that is killed: `python killed_stream.py MASTER LAKE CHECKPOINT WHO POINT`, in its second batch.

WHO is `driver`, `worker` (a Python process of a task) or `executor` (its Java). For the driver, POINT is one of POINTS;
for the others it is `before` or `after` the task wrote its files. WHO `recovery` only opens the lake, as a driver does
first of all, and is killed at one of POINTS, if it comes there. A stream that nothing kills runs to its end.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from restante.fleet.jobs import micro_batch, stream
from restante.fleet.jobs.micro_batch import MicroBatches
from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.lake.delta import APP_ID, DeltaFiles
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.new_files import put_small_file, read_small_file
from restante.fleet.spark.session import open_session
from restante.fleet.stream.batches import PLAN_APP, Batches
from restante.fleet.stream.source import SegmentReader, SegmentSource
from restante.policy.settings import Settings

BEFORE_PLAN, AFTER_PLAN = "before-plan", "after-plan"
BATCH_START, AFTER_TASKS, AFTER_REDO = "batch-start", "after-tasks", "after-redo-row"
FIRST_TABLE, LAST_TABLE, BEFORE_SPARK = "after-first-table", "after-last-table", "before-sparks-commit"
POINTS = (BEFORE_PLAN, AFTER_PLAN, BATCH_START, AFTER_TASKS, AFTER_REDO, FIRST_TABLE, LAST_TABLE, BEFORE_SPARK)
BATCH = 2
BUCKETS = 2
MARK = "killed"  # in the lake, once a task was killed


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_commits(point: str) -> None:
    """Around the redo row, and after the first and the last table of the batch."""
    real = DeltaFiles.commit
    after = {("batches", APP_ID): AFTER_REDO, ("events", APP_ID): FIRST_TABLE, ("segments", APP_ID): LAST_TABLE}

    def commit(self: DeltaFiles, batch: int, *args: Any, app_id: str = APP_ID) -> None:
        if batch == BATCH and self.name == "batches" and point == AFTER_TASKS:
            die()
        real(self, batch, *args, app_id=app_id)
        if batch == BATCH and after.get((self.name, app_id)) == point:
            die()

    DeltaFiles.commit = commit  # type: ignore[assignment,method-assign] # a test's own driver


def kill_around_batches(point: str) -> None:
    real = MicroBatches.run

    def run(self: MicroBatches, n: int) -> Any:
        if n == BATCH and point == BATCH_START:
            die()
        done = real(self, n)
        if n == BATCH and point == BEFORE_SPARK:
            die()
        return done

    MicroBatches.run = run  # type: ignore[method-assign] # a test's own driver


def kill_around_plans(point: str, driver: int) -> None:
    """The plan is made by a process of Spark's beside the driver, which gets this class by value."""

    class KilledReader(SegmentReader):
        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802 - PySpark's name
            segments = self._planner()._segments
            real = segments.commit

            def commit(batch: int, *args: Any, app_id: str = APP_ID) -> None:
                if (batch, app_id, point) == (BATCH, PLAN_APP, BEFORE_PLAN):
                    os.kill(driver, signal.SIGKILL)
                    die()
                real(batch, *args, app_id=app_id)
                if (batch, app_id, point) == (BATCH, PLAN_APP, AFTER_PLAN):
                    os.kill(driver, signal.SIGKILL)
                    die()

            segments.commit = commit  # type: ignore[assignment,method-assign] # a test's own planner
            try:
                return super().latestOffset(start, limit)
            finally:
                del segments.commit

    class KilledSource(SegmentSource):
        def streamReader(self, schema: Any) -> SegmentReader:  # noqa: N802 - PySpark's name
            made = super().streamReader(schema)
            return KilledReader(made._lake.root, files=made._files, size_bytes=made._size_bytes)

    stream.SegmentSource = KilledSource  # type: ignore[attr-defined] # a test's own source


def kill_tasks(who: str, point: str) -> None:
    """The first task of the batch, once: a lost executor makes Spark run earlier stages again, too."""
    real, run = micro_batch._advance_bucket, MicroBatches.run
    batch = 0

    def remember(self: MicroBatches, n: int) -> Any:
        nonlocal batch
        batch = n
        return run(self, n)

    def killed(lake: str, *args: Any, **options: Any) -> Any:
        work, is_killed = real(lake, *args, **options), batch == BATCH

        def task(batches: Iterator[Any]) -> Iterator[Any]:
            context: Any = TaskContext.get()
            is_victim = is_killed and context.partitionId() == 0 and read_small_file(lake, MARK) is None
            if is_victim and point == "before":
                kill(lake)
            made = list(work(batches))
            if is_victim and point == "after":
                kill(lake)
            yield from made

        return task

    def kill(lake: str) -> None:
        """A task's process was forked by one that the executor's Java started."""
        put_small_file(lake, MARK, b"killed")
        java = int(Path(f"/proc/{os.getppid()}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
        os.kill(os.getpid() if who == "worker" else java, signal.SIGKILL)

    micro_batch._advance_bucket = killed  # type: ignore[assignment] # a test's own tasks
    MicroBatches.run = remember  # type: ignore[method-assign] # a test's own driver


def main(master: str, lake: str, checkpoint: str, who: str, point: str) -> None:
    if who in ("driver", "recovery"):
        kill_at_commits(point)
        kill_around_batches(point)
        kill_around_plans(point, os.getpid())
    else:
        kill_tasks(who, point)
    if who == "recovery":
        Batches(Lake(lake), buckets=BUCKETS)
        return
    options = StreamOptions(once=True, buckets=BUCKETS, files_per_batch=4, is_published=False, checkpoint=checkpoint)
    with open_session(app_name="killed stream", master=master) as spark:
        start_stream(spark, Lake(lake), Settings(), options).await_end()


if __name__ == "__main__":
    main(*sys.argv[1:])
