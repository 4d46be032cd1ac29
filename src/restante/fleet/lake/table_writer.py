"""Write a Spark DataFrame as the new content of a Delta table, whole or some days of it, in one atomic commit.

Spark writes Parquet files beside the live ones; the commit then replaces these. A job that is killed in between leaves
files that no reader sees; `vacuum` deletes them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Final

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from restante.fleet.lake.arrow_files import OWN_VALUES, RANDOM_COLUMNS, write_rows
from restante.fleet.lake.delta import DataFile, DeltaFiles
from restante.fleet.lake.layout import DAY, Lake, is_object_store, spark_path
from restante.fleet.lake.new_files import delete_file, list_tree, open_file
from restante.fleet.stream.state_tables import KINDS
from restante.fleet.tables.journal_schema import JOURNAL, SOURCE_FILE
from restante.model.conservation_report import BadSegment

DAY_MS: Final = 86_400_000
FOOTERS_AT_ONCE: Final = 8
QUARANTINE = StructType([*JOURNAL.fields, StructField(SOURCE_FILE, StringType()), StructField("reason", StringType())])
"""Rows that break a rule, and files that could not be read: of those, only the name and the reason."""

WRITE_OPTIONS: Final[Mapping[str, str]] = {
    "compression": "zstd",
    **{f"parquet.enable.dictionary#{name}": "false" for name in OWN_VALUES},
    **{f"parquet.column.statistics.enabled#{name}": "false" for name in RANDOM_COLUMNS},
}

KeepFile = Callable[[DataFile], bool]


def with_day(rows: DataFrame) -> DataFrame:
    """Add the UTC day of each event, independent of the session's time zone."""
    return rows.withColumn(DAY, sf.date_from_unix_date(sf.floor(sf.col("at_ms") / DAY_MS).cast("int")))


def open_base_table(lake: Lake, kind: str) -> DeltaFiles:
    table = KINDS[kind]
    return DeltaFiles(
        f"{lake.root.rstrip('/')}/{table.folder}", table.delta, partition=table.partition, retention_h=table.retention_h
    )


def replace_rows(
    rows: DataFrame,
    table: DeltaFiles,
    *,
    keep: KeepFile = lambda _file: False,
    batch: int = 0,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Make `rows` the content of the table, beside the live files that `keep` is true for. Nothing is committed if
    `check` raises once all rows were read."""
    live = table.live()
    is_on_store = is_object_store(table.address)
    added = write_rows(rows, table.address, partition=table.partition) if is_on_store else _written(rows, table)
    check()
    table.replace(added, (path for path, file in live.items() if not keep(file)), batch=batch)


def _written(rows: DataFrame, table: DeltaFiles) -> list[DataFile]:
    """Write rows by Spark's JVM as new files of a table on this machine."""
    before = list_tree(table.address)
    writer = rows.write.mode("append").options(**WRITE_OPTIONS)
    if table.partition:
        writer = writer.partitionBy(*table.partition)
    writer.parquet(spark_path(table.address))
    new = {path: size for path, size in list_tree(table.address).items() if path not in before}
    paths = [path for path in sorted(new) if path.endswith(".parquet") and not path.startswith(("_", "."))]
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as threads:
        counts = list(threads.map(lambda path: _rows_in(table.address, path), paths))
    return [
        DataFile(path=path, size_bytes=new[path], rows=count, day=_day_of(path) if table.partition else None)
        for path, count in zip(paths, counts, strict=True)
    ]


def replace_files(table: DeltaFiles, files: Iterable[DataFile]) -> None:
    """Make these files, which are written already, the content of the table."""
    table.replace(files, table.live(), batch=0)


def discard_files(table: DeltaFiles, files: Iterable[DataFile]) -> None:
    """Delete files that were written and not committed."""
    for file in files:
        delete_file(table.address, file.path)


def outside(first_day: date, last_day: date) -> KeepFile:
    """True for files of days that are not from `first_day` to `last_day`."""
    return lambda file: file.day is not None and not str(first_day) <= file.day <= str(last_day)


def file_rows(spark: SparkSession, files: Sequence[BadSegment]) -> DataFrame:
    """Files that could not be read, as rows of the quarantine."""
    rows = [{SOURCE_FILE: file.name, "reason": file.reason} for file in files]
    # From Arrow they are in the plan itself; a list of rows would be read by Python processes.
    return spark.createDataFrame(pa.Table.from_pylist(rows, to_arrow_schema(QUARANTINE)), QUARANTINE)


def _rows_in(address: str, path: str) -> int:
    return int(parquet.read_metadata(open_file(address, path)).num_rows)


def _day_of(path: str) -> str:
    return path.rpartition("/")[0].rpartition(f"{DAY}=")[2]
