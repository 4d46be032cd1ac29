"""How the tables of a lake are written: by day, or whole. Writing the same rows again leaves the same table."""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from restante.fleet.lake.layout import DAY, Lake, file_system, spark_path
from restante.fleet.tables.journal_schema import JOURNAL, SOURCE_FILE
from restante.model.conservation_report import BadSegment

DAY_MS = 86_400_000
QUARANTINE = StructType([*JOURNAL.fields, StructField(SOURCE_FILE, StringType()), StructField("reason", StringType())])
"""Rows that were not understood, and files that could not be read: of those, only the name and the reason."""


_RANDOM_COLUMNS = ("event_id", "message_id", "payload_hash")
"""Almost every row has a value of its own in these, anywhere between all others: a dictionary of them, or their lowest
and highest, is work for nothing."""
_OWN_VALUES = (*_RANDOM_COLUMNS, "at_ms")
WRITE_OPTIONS: Final[Mapping[str, str]] = {
    "compression": "zstd",
    **{f"parquet.enable.dictionary#{name}": "false" for name in _OWN_VALUES},
    **{f"parquet.column.statistics.enabled#{name}": "false" for name in _RANDOM_COLUMNS},
}


def with_day(rows: DataFrame) -> DataFrame:
    """With the UTC day of each event, whatever the session's time zone is."""
    return rows.withColumn(DAY, sf.date_from_unix_date(sf.floor(sf.col("at_ms") / DAY_MS).cast("int")))


def write_days(rows: DataFrame, lake: Lake, table: str) -> None:
    """Each day among `rows` takes the place of that day in the table; other days stay."""
    writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").options(**WRITE_OPTIONS)
    writer.partitionBy(DAY).parquet(spark_path(lake.table(table)))


def write_all_days(rows: DataFrame, lake: Lake, table: str) -> None:
    """The same, and a day that `events` have no row of is gone from the table."""
    spark = rows.sparkSession
    before = _files_by_day(spark, lake.table(table))
    write_days(rows, lake, table)
    after = _files_by_day(spark, lake.table(table))
    for day, files in before.items():
        if after.get(day) == files:  # every write has names of its own
            system, path = file_system(spark, f"{lake.table(table)}/{day}")
            system.delete(path, True)


def _files_by_day(spark: SparkSession, where: str) -> dict[str, frozenset[str]]:
    system, path = file_system(spark, where)
    if not system.exists(path):
        return {}
    days = [entry.getPath() for entry in system.listStatus(path) if entry.getPath().getName().startswith(f"{DAY}=")]
    return {day.getName(): frozenset(entry.getPath().getName() for entry in system.listStatus(day)) for day in days}


def write_whole(rows: DataFrame, lake: Lake, table: str) -> None:
    rows.write.mode("overwrite").options(**WRITE_OPTIONS).parquet(spark_path(lake.table(table)))


def file_rows(spark: SparkSession, files: Sequence[BadSegment]) -> DataFrame:
    """Files that could not be read, as rows of the quarantine."""
    rows = [{SOURCE_FILE: file.name, "reason": file.reason} for file in files]
    # From Arrow they are in the plan itself; a list of rows would be read by Python processes.
    return spark.createDataFrame(pa.Table.from_pylist(rows, to_arrow_schema(QUARANTINE)), QUARANTINE)
