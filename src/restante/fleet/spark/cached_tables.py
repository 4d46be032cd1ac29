"""Cached DataFrames with their lineage cut, so that later plans start at the cached rows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame


@contextmanager
def cached_tables() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Yield a function that caches a table, in memory and beyond it on disk, until the block ends."""
    kept: list[DataFrame] = []

    def keep(table: DataFrame) -> DataFrame:
        kept.append(table.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK))
        return kept[-1]

    try:
        yield keep
    finally:
        kept.clear()
