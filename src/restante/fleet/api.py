"""The pipeline for programs with their own SparkSession: notebooks, spark-submit, other jobs.

`from restante.fleet import backfill, start_stream, report`. The session is neither configured nor stopped.
"""

import atexit
import tempfile
import time
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from restante.fleet.jobs import backfill as backfill_job
from restante.fleet.jobs import fleet_report, stream
from restante.fleet.jobs.report_input import look_at, source_of
from restante.fleet.jobs.stream import RunningStream, StreamOptions
from restante.fleet.lake.enrolment_file import read_enrolment
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.segment_discovery import found_in
from restante.fleet.spark.session import is_local, zip_package
from restante.model.fleet_report import FleetReport
from restante.policy.settings import Settings

__all__ = ["StreamOptions", "backfill", "report", "start_stream"]


def backfill(
    spark: SparkSession, lake: str, settings: Settings | None = None, *, operator_key: bytes | None = None
) -> backfill_job.Backfilled:
    """Make all tables of a lake from all of its segments."""
    _send_package(spark)
    enrolment = read_enrolment(lake, operator_key)
    found = found_in(Lake(lake).segments, spark, enrolment=enrolment)
    return backfill_job.backfill(
        spark,
        Lake(lake),
        settings or Settings(),
        found.segments,
        found.bad,
        listing=found.listing,
        enrolment=enrolment,
        now_ms=int(time.time() * 1_000),
    )


def start_stream(
    spark: SparkSession, lake: str, settings: Settings | None = None, options: StreamOptions | None = None
) -> RunningStream:
    """Start the stream of a lake and return; `RunningStream.query` is Spark's, `await_end` waits for its end."""
    _send_package(spark)
    return stream.start_stream(spark, Lake(lake), settings or Settings(), options or StreamOptions())


def report(
    spark: SparkSession, source: str, settings: Settings | None = None, *, operator_key: bytes | None = None
) -> FleetReport:
    """Make the report on a lake, or on a directory of segments."""
    _send_package(spark)
    found = source_of(spark, look_at(source, operator_key))
    return fleet_report.make_fleet_report(
        spark,
        found.segments,
        found.bad,
        now_ms=int(time.time() * 1_000),
        retention=(settings or Settings()).dead_letters,
        rows=found.rows,
        read_from=found.read_from,
        tables=found.tables,
    )


def _send_package(spark: SparkSession) -> None:
    """Executors elsewhere import this package from a file that the driver sends."""
    context = spark.sparkContext
    if is_local(str(context.master)) or any(name.endswith("/restante.zip") for name in context.listFiles):
        return
    context.addPyFile(str(zip_package(_package_directory())))


@cache
def _package_directory() -> Path:
    """Where the file stays until this process ends: Spark hands it to executors from there, whenever one starts."""
    made = tempfile.TemporaryDirectory(prefix="restante-package-", ignore_cleanup_errors=True)
    atexit.register(made.cleanup)
    return Path(made.name)
