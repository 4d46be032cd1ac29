"""Sizes of what a kernel gets from `DataFrame.mapInArrow`."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

BatchFunction = Callable[[Iterator[Any]], Iterator[Any]]
ROWS_PER_PARTITION: Final = 1_000_000
"""What a kernel takes at once: about 300 MB in its Python process, however long the journal is."""
ROWS_PER_ARROW_BATCH: Final = 100_000


def partitions_for(rows: int, *, at_least: int) -> int:
    """Return the number of tasks for this many rows."""
    return max(at_least, -(-rows // ROWS_PER_PARTITION))


def tasks_for(spark: SparkSession, files: int) -> int:
    """Return the number of tasks that read this many files one after the other: short ones, so that none is last."""
    return max(1, min(files, 4 * spark.sparkContext.defaultParallelism))
