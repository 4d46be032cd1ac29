"""Survey the rows of segments (transforms/prescan), read in the way that costs least.

Spark's tasks read segments on an object store themselves, and local ones where they run on this machine: handing every
column of every row from Java to Python costs more than all checks. A file that gives fewer rows than its footer says
sends all of them the usual way, so that what counts of a damaged file is the same for every reader.
"""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from restante.fleet.lake.arrow_files import segment_rows
from restante.fleet.lake.layout import Lake, is_object_store
from restante.fleet.lake.segments import Segment
from restante.fleet.lake.table_writer import discard_files, open_base_table
from restante.fleet.spark.map_in_arrow import partitions_for
from restante.fleet.spark.session import LOCAL_READ_TASKS, is_local
from restante.fleet.transforms.prescan import FOUND, Prescan, look_and_write, prescan_of, survey


def survey_segments(
    spark: SparkSession, segments: Sequence[Segment], rows: DataFrame, *, write_to: Lake | None = None
) -> Prescan:
    """Survey `rows`, those of `segments`. With `write_to` their events are written as well."""
    root = None if write_to is None else write_to.root
    shares_disk = is_local(str(spark.sparkContext.master))
    paths = [
        str(one.path)
        for one in segments
        if is_object_store(str(one.path)) or (shares_disk and isinstance(one.path, Path))
    ]
    if not paths or len(paths) < len(segments):
        return survey(rows, root)
    count = sum(segment.rows for segment in segments)
    tasks = min(len(paths), partitions_for(count, at_least=LOCAL_READ_TASKS))
    look, read = look_and_write(root), segment_rows(paths)
    numbers = spark.range(0, len(paths), 1, tasks)
    known = prescan_of(numbers.mapInArrow(lambda batches: look(read(batches)), FOUND))
    if known.rows_by_file() == {segment.path.name: segment.rows for segment in segments if segment.rows}:
        return known
    if write_to is not None:
        discard_files(open_base_table(write_to, "events"), known.files)
    return survey(rows, root)
