"""`DataFrame.mapInArrow` without pandas.

PySpark's own method asks whether pandas is installed before it does anything, though nothing of pandas is then used:
batches go to the function as Arrow has them. Pandas would be the largest package of the fleet's, for one version check.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

BatchFunction = Callable[[Iterator[Any]], Iterator[Any]]


def map_in_arrow(rows: DataFrame, function: BatchFunction, schema: str) -> DataFrame:
    """What `function` yields when it gets the Arrow batches of each partition of `rows`; `schema` as DDL."""
    made: Any = UserDefinedFunction(function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = made(*(rows[name] for name in rows.columns))
    java_rows: Any = rows._jdf
    return DataFrame(java_rows.mapInArrow(column._jc, False, None), rows.sparkSession)
