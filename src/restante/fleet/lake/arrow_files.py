"""Read and write Parquet files in Spark's Python tasks, through pyarrow instead of the JVM.

For lakes on object stores, which Spark's JVM knows only with further packages, and for segments on this machine where
every column of every row would go from Java to Python anyway.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from restante.fleet.lake.delta import DataFile
from restante.fleet.lake.layout import DAY, is_object_store
from restante.fleet.lake.new_files import create_file, open_file
from restante.fleet.lake.object_folder import fetch_object
from restante.fleet.spark.map_in_arrow import ROWS_PER_ARROW_BATCH, BatchFunction, tasks_for
from restante.fleet.stream.rows import EVENTS
from restante.fleet.tables.journal_schema import SOURCE_FILE

RANDOM_COLUMNS: Final = ("event_id", "message_id", "payload_hash")
"""Almost every row has its own value in these, anywhere between all others: dictionaries and bounds cost and help
nothing."""
OWN_VALUES: Final = (*RANDOM_COLUMNS, "at_ms")
_DAY_FOLDER: Final = re.compile(rf"(?:^|/){DAY}=([0-9-]+)/[^/]+$")
ROWS_PER_FILE: Final = 1_000_000
WRITTEN: Final = "path string, size_bytes bigint, rows bigint, day string"
_WRITTEN_ARROW: Final = pa.schema(
    [("path", pa.string()), ("size_bytes", pa.int64()), ("rows", pa.int64()), ("day", pa.string())]
)


def segment_rows(paths: Sequence[str]) -> BatchFunction:
    """Return a function from numbers of segments to their rows as EVENTS. `paths` are addresses, or files here."""
    return for_each(paths, _rows_of_segment)


def table_rows(spark: SparkSession, root: str, names: Sequence[str], schema: StructType) -> DataFrame:
    """The rows of Parquet files below `root`; the day of a row is in the name of its file's directory."""
    fields = to_arrow_schema(schema)

    def read(name: str) -> Iterator[Any]:
        constants = days_in(name)
        columns = [column for column in fields.names if column not in constants]
        with parquet.ParquetFile(open_file(root, name), pre_buffer=True) as file:
            for batch in file.iter_batches(ROWS_PER_ARROW_BATCH, columns=columns):
                yield fitted(batch, fields, constants)

    numbers = spark.range(0, len(names), 1, tasks_for(spark, len(names)))
    return numbers.mapInArrow(for_each(names, read), schema)


def write_rows(rows: DataFrame, root: str, *, partition: Sequence[str] = ()) -> list[DataFile]:
    """Write rows as new files below `root`, a directory for each day where `partition` names it."""
    fields = to_arrow_schema(rows.schema)

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        for table in _grouped(batches, fields):
            for file in write_table(root, table, partition=partition):
                yield written(file)

    return [DataFile(**row.asDict()) for row in rows.mapInArrow(write, WRITTEN).collect()]


def write_table(root: str, rows: Any, *, partition: Sequence[str] = ()) -> list[DataFile]:
    """Write an Arrow table as new files below `root`: one, or one a day; none for no rows."""
    if not len(rows):
        return []
    parts = _by_day(rows) if partition else ((None, rows),)
    return [write_file(root, day, part) for day, part in parts]


def write_file(root: str, day: str | None, rows: Any) -> DataFile:
    name = f"part-{secrets.token_hex(12)}.parquet"
    path = name if day is None else f"{DAY}={day}/{name}"
    with create_file(root, path) as file:
        parquet.write_table(
            rows,
            file,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in rows.column_names if name not in OWN_VALUES],
            write_page_checksum=True,
        )
        size_bytes = file.tell()
    return DataFile(path=path, size_bytes=size_bytes, rows=len(rows), day=day)


def _grouped(batches: Iterable[Any], fields: Any) -> Iterator[Any]:
    """Tables of at most ROWS_PER_FILE and a batch."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= ROWS_PER_FILE:
            yield pa.Table.from_batches(waiting).cast(fields)
            waiting = []
    if sum(map(len, waiting)):
        yield pa.Table.from_batches(waiting).cast(fields)


def _by_day(table: Any) -> Iterator[tuple[str, Any]]:
    days = table[DAY]
    for day in days.unique().to_pylist():
        yield str(day), table.filter(pc.equal(days, day)).drop_columns([DAY])


def written(file: DataFile) -> Any:
    columns = [[file.path], [file.size_bytes], [file.rows], [file.day]]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, _WRITTEN_ARROW, strict=True)],
        schema=_WRITTEN_ARROW,
    )


def for_each(names: Sequence[str], read: Callable[[str], Iterator[Any]]) -> BatchFunction:
    def run(numbers: Iterator[Any]) -> Iterator[Any]:
        for batch in numbers:
            for number in batch.column("id").to_pylist():
                yield from read(names[number])

    return run


def _rows_of_segment(path: str) -> Iterator[Any]:
    """The rows of a segment as EVENTS, up to where it is damaged. A store that fails raises instead."""
    name = Path(path).name
    try:
        source = pa.BufferReader(fetch_object(path)) if is_object_store(path) else path
        with parquet.ParquetFile(source, page_checksum_verification=True) as file:
            there = set(file.schema_arrow.names)
            columns = [column for column in EVENTS.names if column in there and column != SOURCE_FILE]
            for batch in file.iter_batches(ROWS_PER_ARROW_BATCH, columns=columns):
                yield fitted(batch, EVENTS, {SOURCE_FILE: name})
    except (OSError, pa.ArrowException):
        return


def fitted(batch: Any, fields: Any, constants: Mapping[str, Any]) -> Any:
    """The columns of a batch as `fields`. A column that may be null may be missing."""
    columns = []
    for field in fields:
        if field.name in constants:
            columns.append(pa.repeat(pa.scalar(constants[field.name], field.type), len(batch)))
        elif field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(len(batch), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=fields)


def days_in(name: str) -> dict[str, date]:
    """The day of all rows of a file, if its directory says it."""
    found = _DAY_FOLDER.search(name)
    return {} if found is None else {DAY: date.fromisoformat(found[1])}
