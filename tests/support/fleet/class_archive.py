"""Makes the archive of Spark's classes that tests start Java with: `python -m support.fleet.class_archive`.

With it a Spark session starts in half the time. Java writes it when a session ends that has used what tests use.
"""

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from restante.fleet.jobs.backfill import backfill
from restante.fleet.jobs.generate import generate
from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.kernels.synthetic_fleet import Scenario
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.segments import find_segments
from restante.fleet.spark import session
from restante.policy.settings import Settings
from support.fleet.small_spark import ARCHIVE, COMPILE_LITTLE, quick_environ

WRITTEN_WITHIN_S = 300
SMALL = Scenario(messages=60, sessions=6, clients=4, nodes=3, days=2)


def main() -> None:
    draft = ARCHIVE.with_suffix(".partial")
    draft.unlink(missing_ok=True)
    with TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        for name, value in quick_environ().items():
            patch.setenv(name, value)
        patch.setenv("SPARK_SUBMIT_OPTS", f"{COMPILE_LITTLE} -XX:ArchiveClassesAtExit={draft}")
        patch.setattr(session, "JVM_STOP_TIMEOUT_S", WRITTEN_WITHIN_S)
        with session.open_session(app_name="archive", master="local[2]") as spark:
            lake, other = Lake(str(Path(home, "lake"))), Lake(str(Path(home, "other")))
            generate(spark, lake, SMALL)
            backfill(spark, other, Settings(), *find_segments(lake.local_segments))
            start_stream(spark, lake, Settings(), StreamOptions(once=True, buckets=2, is_published=False)).await_end(
                threading.Event()
            )
    draft.replace(ARCHIVE)


if __name__ == "__main__":
    main()
