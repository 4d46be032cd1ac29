"""Write synthetic journals into a new lake, as segments (SPEC 13.1)."""

from typing import Final

from pyspark.sql import SparkSession

from restante.fleet.kernels.synthetic_fleet import Scenario
from restante.fleet.lake.arrow_files import write_rows
from restante.fleet.lake.file_systems import exists
from restante.fleet.lake.layout import Lake, check_writable, is_object_store, spark_path
from restante.fleet.spark.job_progress import Watcher, ignore_progress, watched
from restante.fleet.spark.session import open_session
from restante.fleet.transforms.synthetic import all_events, recipients_events
from restante.model.errors import ConfigurationInvalid

ROWS_PER_SEGMENT: Final = 1_000_000


def run_generate(
    lake: Lake,
    scenario: Scenario,
    *,
    only_arrivals: bool = False,
    master: str = "local[*]",
    tell: Watcher = ignore_progress,
) -> None:
    """The journals of `scenario` as the segments of a new lake, in a Spark session of its own."""
    check_writable(lake)
    with open_session(app_name="restante generate", master=master) as spark:
        generate(spark, lake, scenario, only_arrivals=only_arrivals, tell=tell)


def generate(
    spark: SparkSession, lake: Lake, scenario: Scenario, *, only_arrivals: bool = False, tell: Watcher = ignore_progress
) -> None:
    if exists(spark, lake.segments):
        raise ConfigurationInvalid(f"{lake.segments} is there already; synthetic journals need a new lake")
    events = (recipients_events if only_arrivals else all_events)(spark, scenario)
    with watched(spark, "making journals", tell):
        if is_object_store(lake.segments):
            write_rows(events, lake.segments)
            return
        writer = events.write.option("compression", "zstd").option("maxRecordsPerFile", ROWS_PER_SEGMENT)
        writer.parquet(spark_path(lake.segments))
