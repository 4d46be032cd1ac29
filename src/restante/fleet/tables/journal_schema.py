"""The journal as Spark sees it, made from the one table of columns in wire/journal_schema."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from restante.wire.journal_schema import FIELDS

SOURCE_FILE: Final = "source_file"
"""Name of the segment a row was read from; always the last column."""

_SPARK_TYPES: Final[Mapping[str, DataType]] = {
    "binary": BinaryType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "string": StringType(),
}

JOURNAL_COLUMNS: Final = tuple(field.name for field in FIELDS)

JOURNAL: Final = StructType([StructField(field.name, _SPARK_TYPES[field.type]) for field in FIELDS])
"""Every column may be null here: what a file holds is not known before it is validated."""

ROWS: Final = StructType([*JOURNAL.fields, StructField(SOURCE_FILE, StringType())])
"""What is read from segments: the journal's columns and where each row came from."""
