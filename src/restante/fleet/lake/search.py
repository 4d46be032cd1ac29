"""Find rows of Parquet files by ids, and write files again without them, in Spark's Python tasks.

Columns that are searched are read first, and others only of row groups that have a hit. Few rows of a long history are
found in this way at the cost of one column.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from restante.fleet.lake.arrow_files import WRITTEN, days_in, fitted, for_each, write_file, written
from restante.fleet.lake.delta import DataFile
from restante.fleet.lake.new_files import open_file
from restante.fleet.spark.map_in_arrow import BatchFunction

FILE: Final = "file"
FAN: Final = 8
"""Files of one day and about one size that are merged into one."""
ROWS_PER_FILE: Final = 1_000_000
ROWS_AT_ONCE: Final = 1_000_000
"""Rows of several files that are searched together: each time, Arrow hashes all ids before it looks any up."""
FILES_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Search:
    """Rows by some of `ids`, a broadcast Arrow array: for none of them no file is read.

    `matches` gets a table of the `columns` and returns a mask without nulls.
    """

    ids: Any
    columns: tuple[str, ...]
    matches: Callable[[Any], Any]


def one_of(column: str, ids: Any) -> Search:
    """Rows whose `column` is among `ids`. Null is found if it is one of them."""
    return Search(ids, (column,), lambda rows: pc.is_in(rows[column], value_set=ids.value))


def matching_rows(
    spark: SparkSession, root: str, names: Sequence[str], schema: StructType, search: Search
) -> DataFrame:
    """The rows that are searched for in files below `root`, with the name of the file as `file`."""
    found = StructType([*schema.fields, StructField(FILE, StringType())])
    return from_matching_rows(spark, root, names, found, search, work=iter, into=found)


def from_matching_rows(
    spark: SparkSession,
    root: str,
    names: Sequence[str],
    schema: StructType,
    search: Search,
    *,
    work: BatchFunction,
    into: StructType | str,
) -> DataFrame:
    """What `work` makes of the rows that are searched for, in the tasks that find them."""
    fields = to_arrow_schema(schema)
    names = names if len(search.ids.value) else ()

    def found(numbers: Iterator[Any]) -> Iterator[Any]:
        mine = [names[number] for batch in numbers for number in batch.column("id").to_pylist()]
        for name, rows in _hits(root, mine, fields.names, search):
            for batch in rows.to_batches():
                yield fitted(batch, fields, {**days_in(name), FILE: name})

    numbers = spark.range(0, len(names), 1, _tasks(spark, len(names)))
    return numbers.mapInArrow(lambda batches: work(found(batches)), into)


def _tasks(spark: SparkSession, files: int) -> int:
    """Few: to begin a task takes longer than to search a file."""
    return max(1, min(files, 2 * spark.sparkContext.defaultParallelism))


def _hits(root: str, names: Sequence[str], columns: Sequence[str], search: Search) -> Iterator[tuple[str, Any]]:
    """The rows that are searched for, with the name of their file."""
    left = list(reversed(names))
    while left:
        with ExitStack() as stack:
            files = _opened(stack, root, left)
            searched = [file.read(list(search.columns)) for file in files.values()]
            mask = np.asarray(search.matches(pa.concat_tables(searched, promote_options="default")))
            begin = 0
            for name, file in files.items():
                for rows in _rows_of(file, columns, mask[begin : begin + file.metadata.num_rows]):
                    yield name, rows
                begin += file.metadata.num_rows


def _opened(stack: ExitStack, root: str, left: list[str]) -> dict[str, parquet.ParquetFile]:
    """Open some files from the end of the list, at least one, and take them off it."""
    files: dict[str, parquet.ParquetFile] = {}
    rows = 0
    while left and len(files) < FILES_AT_ONCE and rows < ROWS_AT_ONCE:
        name = left.pop()
        files[name] = stack.enter_context(parquet.ParquetFile(open_file(root, name), pre_buffer=True))
        rows += files[name].metadata.num_rows
    return files


def _rows_of(file: parquet.ParquetFile, columns: Sequence[str], mask: Any) -> Iterator[Any]:
    begin = 0
    for number in range(file.num_row_groups):
        end = begin + file.metadata.row_group(number).num_rows
        places = np.flatnonzero(mask[begin:end])
        if len(places):
            yield file.read_row_group(number, list(columns)).take(pa.array(places))
        begin = end


def rewritten(
    spark: SparkSession, root: str, groups: Sequence[Sequence[str]], schema: Any, search: Search
) -> list[DataFile]:
    """Write the files of each group as one, without the rows that are searched for."""

    def rewrite(number: str) -> Iterator[Any]:
        names = groups[int(number)]
        tables = [_others(root, name, schema, search) for name in names]
        rows = pa.concat_tables(tables)
        if len(rows):
            day = next(iter(days_in(names[0]).values()), None)
            yield written(write_file(root, None if day is None else str(day), rows))

    if not groups:
        return []
    numbers = spark.range(0, len(groups), 1, _tasks(spark, len(groups)))
    rows = numbers.mapInArrow(for_each([str(number) for number in range(len(groups))], rewrite), WRITTEN)
    return [DataFile(**row.asDict()) for row in rows.collect()]


def _others(root: str, name: str, schema: Any, search: Search) -> Any:
    constants = days_in(name)
    fields = pa.schema([field for field in schema if field.name not in constants])
    with parquet.ParquetFile(open_file(root, name), pre_buffer=True) as file:
        rows = file.read(fields.names)
    rows = rows.filter(pc.invert(search.matches(rows)))
    return pa.Table.from_batches([fitted(batch, fields, {}) for batch in rows.to_batches()], schema=fields)


def merge_plan(live: Mapping[str, DataFile], touched: Iterable[str]) -> list[list[str]]:
    """Which files to write again as one: each that is touched, and FAN or more of one day and about one size."""
    by_size: dict[tuple[str | None, int], list[DataFile]] = {}
    for file in live.values():
        by_size.setdefault((file.day, file.rows.bit_length() // 3), []).append(file)
    merged = [
        [file.path for file in files]
        for files in by_size.values()
        if len(files) >= FAN and sum(file.rows for file in files) <= ROWS_PER_FILE
    ]
    alone = set(touched).difference(chain.from_iterable(merged))
    return [*merged, *([path] for path in sorted(alone))]
