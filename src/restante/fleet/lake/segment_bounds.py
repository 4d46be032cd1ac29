"""What a file must keep to before any of its rows is processed: version, columns, and bounds on what it costs."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from restante.model.errors import Malformed
from restante.wire.field_checks import MAX_TIME_MS
from restante.wire.journal_schema import FIELDS, SCHEMA_VERSION

MAX_SEGMENT_BYTES: Final = 2**30
MAX_SEGMENT_ROWS: Final = 4_000_000
MAX_UNPACKED_BYTES: Final = 4 * 2**30
"""Bounds of one segment, checked in its footer before Spark reads a row. Writers ship 100,000 rows in one."""
MAX_SEGMENT_DAYS: Final = 400
"""Each day of events costs a file of two tables at least. A writer prunes what it could not ship after 30 days, by a
clock that may jump; without a bound the rows of one file can be of three million days."""
VERSION_KEY: Final = b"restante.schema_version"
_SHOWN_BYTES: Final = 20  # of a version that another program wrote
_DAY_MS: Final = 86_400_000
_TIME: Final = "at_ms"

_STORED_TYPES: Final[Mapping[str, frozenset[tuple[str, str]]]] = {
    "binary": frozenset({("BYTE_ARRAY", "NONE"), ("FIXED_LEN_BYTE_ARRAY", "NONE")}),
    "int32": frozenset({("INT32", "NONE"), ("INT32", "INT")}),
    "int64": frozenset({("INT64", "NONE"), ("INT64", "INT")}),
    "string": frozenset({("BYTE_ARRAY", "STRING")}),
}
"""Parquet's physical and logical type for each type word of the journal's columns."""


def check_segment(file: parquet.ParquetFile, *, size_bytes: int) -> None:
    """Raise if this is no segment that can be read, or would cost too much."""
    _check_version(file.metadata.metadata or {})
    _check_columns(file.schema)
    _check_bounds(file.metadata, size_bytes)
    _check_days(file)


def _check_version(metadata: Mapping[bytes, bytes]) -> None:
    """A segment of a later version may mean something else by the same columns."""
    version = metadata.get(VERSION_KEY, b"%d" % SCHEMA_VERSION)
    if version != b"%d" % SCHEMA_VERSION:
        shown = version[:_SHOWN_BYTES].decode("ascii", "replace")
        raise Malformed(f"schema version {shown}, and this reads version {SCHEMA_VERSION}")


def _check_columns(schema: parquet.ParquetSchema) -> None:
    """Columns that we do not know are of a newer writer and are not read; ones that may be null may be missing."""
    columns = {column.path: column for column in map(schema.column, range(len(schema)))}
    for wanted in FIELDS:
        if wanted.name not in columns:
            if wanted.nullable:
                continue
            raise Malformed(f"{wanted.name}: the column is missing")
        column = columns[wanted.name]
        stored = (column.physical_type, column.logical_type.type)
        if stored not in _STORED_TYPES[wanted.type] or column.max_repetition_level:
            raise Malformed(f"{wanted.name}: the column must be {wanted.type}")


def _check_bounds(footer: Any, size_bytes: int) -> None:
    """A file may be small and unpack to more than a machine holds."""
    unpacked = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
    for found, limit, what in (
        (size_bytes, MAX_SEGMENT_BYTES, "bytes"),
        (footer.num_rows, MAX_SEGMENT_ROWS, "rows"),
        (unpacked, MAX_UNPACKED_BYTES, "bytes unpacked"),
    ):
        if found > limit:
            raise Malformed(f"{found:,} {what}; a segment has at most {limit:,}")


def _check_days(file: parquet.ParquetFile) -> None:
    """The column is read itself: bounds in a footer are what the file says of itself."""
    days: set[int] = set()
    # Of a damaged file the rows before the damage are read, so that only their days are of interest.
    with suppress(OSError, pa.ArrowException):
        for batch in file.iter_batches(columns=[_TIME]):
            days |= _days_of(batch.column(0))
            if len(days) > MAX_SEGMENT_DAYS:
                break
    if len(days) > MAX_SEGMENT_DAYS:
        raise Malformed(f"events of more than {MAX_SEGMENT_DAYS} days")


def _days_of(column: Any) -> set[int]:
    """Rows without a time, or with one out of range, do not become events."""
    times = column.drop_null().to_numpy(zero_copy_only=False)
    sound = times[(times >= 0) & (times <= MAX_TIME_MS)]
    return set(np.unique(sound // _DAY_MS).tolist())
