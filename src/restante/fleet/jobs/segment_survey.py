"""Survey the rows of segments (transforms/prescan), read in the way that costs least.

Where Spark's tasks run on this machine, they read local segments themselves: handing every column of every row from
Java to Python costs more than all checks. A file that gives fewer rows than its footer says sends all of them the usual
way, so that what counts of a damaged file is the same for every reader.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from restante.fleet.lake.layout import Lake
from restante.fleet.lake.segments import Segment
from restante.fleet.lake.table_writer import discard_files, open_base_table
from restante.fleet.spark.map_in_arrow import ROWS_PER_ARROW_BATCH, partitions_for
from restante.fleet.spark.session import LOCAL_READ_TASKS, is_local
from restante.fleet.stream.rows import EVENTS
from restante.fleet.tables.journal_schema import SOURCE_FILE
from restante.fleet.transforms.prescan import FOUND, Prescan, look_and_write, prescan_of, survey


def survey_segments(
    spark: SparkSession, segments: Sequence[Segment], rows: DataFrame, *, write_to: Lake | None = None
) -> Prescan:
    """Survey `rows`, those of `segments`. With `write_to` their events are written as well."""
    root = None if write_to is None else write_to.root
    paths = [str(segment.path) for segment in segments if isinstance(segment.path, Path)]
    if not paths or len(paths) < len(segments) or not is_local(str(spark.sparkContext.master)):
        return survey(rows, root)
    count = sum(segment.rows for segment in segments)
    tasks = min(len(paths), partitions_for(count, at_least=LOCAL_READ_TASKS))
    look = look_and_write(root)
    numbers = spark.range(0, len(paths), 1, tasks)
    known = prescan_of(numbers.mapInArrow(lambda batches: look(_rows_of(paths, batches)), FOUND))
    if known.rows_by_file() == {segment.path.name: segment.rows for segment in segments if segment.rows}:
        return known
    if write_to is not None:
        discard_files(open_base_table(write_to, "events"), known.files)
    return survey(rows, root)


def _rows_of(paths: Sequence[str], numbers: Iterator[Any]) -> Iterator[Any]:
    for batch in numbers:
        for number in batch.column("id").to_pylist():
            yield from _rows_in(paths[number])


def _rows_in(path: str) -> Iterator[Any]:
    """The rows of a segment as EVENTS, up to where it is damaged."""
    name = Path(path).name
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            there = set(file.schema_arrow.names)
            columns = [column for column in EVENTS.names if column in there and column != SOURCE_FILE]
            for batch in file.iter_batches(ROWS_PER_ARROW_BATCH, columns=columns):
                yield _as_events(batch, name)
    except (OSError, pa.ArrowException):
        return


def _as_events(batch: Any, name: str) -> Any:
    columns = []
    for field in EVENTS:
        if field.name == SOURCE_FILE:
            columns.append(pa.repeat(pa.scalar(name, field.type), len(batch)))
        elif field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(len(batch), field.type))  # a column that may be null may be missing
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)
