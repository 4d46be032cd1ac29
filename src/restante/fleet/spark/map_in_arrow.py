"""`DataFrame.mapInArrow` without pandas.

PySpark's own method asks whether pandas is installed before it does anything, though nothing of pandas is then used:
batches go to the function as Arrow has them. Pandas would be the largest package of the fleet's, for one version check.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

BatchFunction = Callable[[Iterator[Any]], Iterator[Any]]
ROWS_PER_PARTITION: Final = 1_000_000
"""What a kernel takes at once: about 300 MB in its Python process, however long the journal is."""
ROWS_PER_ARROW_BATCH: Final = 100_000


def partitions_for(rows: int, *, at_least: int) -> int:
    """How many tasks take so many rows."""
    return max(at_least, -(-rows // ROWS_PER_PARTITION))


def map_in_arrow(rows: DataFrame, function: BatchFunction, schema: str) -> DataFrame:
    """What `function` yields when it gets the Arrow batches of each partition of `rows`; `schema` as DDL."""
    made: Any = UserDefinedFunction(function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = made(*(rows[name] for name in rows.columns))
    java_rows: Any = rows._jdf
    return DataFrame(java_rows.mapInArrow(column._jc, False, None), rows.sparkSession)
