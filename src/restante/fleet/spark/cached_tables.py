"""Tables that are kept while a job works with them, and stand in its further plans as what they are: a table.

Spark keeps rows, not plans: what is made from a kept table still has the whole way to it in its plan, and Spark goes
through all of that for every step added. Here the plan begins where the rows are kept.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame


@contextmanager
def cached_tables() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """A function that keeps tables, in memory and beyond it on disk, until the block ends."""
    kept: list[DataFrame] = []

    def keep(table: DataFrame) -> DataFrame:
        kept.append(table.persist())
        return _from_here(kept[-1])

    try:
        yield keep
    finally:
        for table in reversed(kept):
            table.unpersist()


def _from_here(table: DataFrame) -> DataFrame:
    spark, java_rows = table.sparkSession, table._jdf
    jvm: Any = spark.sparkContext._jvm
    plan = java_rows.queryExecution().withCachedData()
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)
