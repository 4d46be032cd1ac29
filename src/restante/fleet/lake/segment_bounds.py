"""What a file must keep to before any of its rows is processed: version, columns, and bounds on what it costs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from restante.model.errors import Malformed
from restante.wire.field_checks import MAX_TIME_MS
from restante.wire.journal_schema import FIELDS, SCHEMA_VERSION

NOT_WHOLE: Final = "not a whole Parquet file"
MAX_SEGMENT_BYTES: Final = 2**30
MAX_SEGMENT_ROWS: Final = 4_000_000
MAX_UNPACKED_BYTES: Final = 4 * 2**30
"""Bounds of one segment, checked in its footer before Spark reads a row. Writers ship 100,000 rows in one."""
MAX_SEGMENT_COLUMNS: Final = 1_000
MAX_SEGMENT_ROW_GROUPS: Final = 1_000
MAX_SEGMENT_DAYS: Final = 400
"""Each day of events costs a file of two tables at least. A writer prunes what it could not ship after 30 days, by a
clock that may jump; without a bound the rows of one file can be of three million days."""
MAX_VALUE_BYTES: Final = 65_536
"""Of one text or binary value. A value that is longer than its column allows (wire/journal_schema: 8,192 bytes at most)
is named row by row in the quarantine; one that is far longer is no mistake."""
MAX_VALUES_BYTES: Final = 2**27
MAX_VALUES_BYTES_PER_ROW: Final = 256
"""Both together bound the text and binary values of all rows, each written out: about 100 bytes a row. A dictionary
stores a value once for all rows that have it, so that neither the file's size nor its footer shows what the rows hold.
An Arrow array has 2 GiB at most, Java has a heap, and one task may get all rows of a batch."""
VERSION_KEY: Final = b"restante.schema_version"
_SHOWN_BYTES: Final = 20  # of a version that another program wrote
_DAY_MS: Final = 86_400_000
_TIME: Final = "at_ms"
_VALUE_COLUMNS: Final = tuple(field.name for field in FIELDS if field.type in {"binary", "string"})
_ROWS_COUNTED_AT_ONCE: Final = 1_024
_DAMAGE: Final = (OSError, pa.ArrowException)
"""Of a damaged file the rows before the damage are read, so that only these count."""

_STORED_TYPES: Final[Mapping[str, frozenset[tuple[str, str]]]] = {
    "binary": frozenset({("BYTE_ARRAY", "NONE"), ("FIXED_LEN_BYTE_ARRAY", "NONE")}),
    "int32": frozenset({("INT32", "NONE"), ("INT32", "INT")}),
    "int64": frozenset({("INT64", "NONE"), ("INT64", "INT")}),
    "string": frozenset({("BYTE_ARRAY", "STRING")}),
}
"""Parquet's physical and logical type for each type word of the journal's columns."""


def check_segment(opened: Any, *, size_bytes: int) -> int:
    """Raise if this is no segment that can be read, or would cost too much; return how many rows it says it holds."""
    with parquet.ParquetFile(opened) as file:
        _check_version(file.metadata.metadata or {})
        _check_columns(file.schema)
        _check_bounds(file.metadata, size_bytes)
        _check_values(opened, file, size_bytes)
        _check_days(file)
        return int(file.metadata.num_rows)


def _check_version(metadata: Mapping[bytes, bytes]) -> None:
    """A segment of a later version may mean something else by the same columns."""
    version = metadata.get(VERSION_KEY, b"%d" % SCHEMA_VERSION)
    if version != b"%d" % SCHEMA_VERSION:
        shown = version[:_SHOWN_BYTES].decode("ascii", "replace")
        raise Malformed(f"schema version {shown}, and this reads version {SCHEMA_VERSION}")


def _check_columns(schema: parquet.ParquetSchema) -> None:
    """Columns that we do not know are of a newer writer and are not read; ones that may be null may be missing."""
    stored = [schema.column(place) for place in range(len(schema))]
    columns = {column.path: column for column in stored}
    # Spark takes names that differ in upper and lower case for the same, and stops at two of them.
    times = Counter(column.path.lower() for column in stored)
    nested = {column.path.partition(".")[0].lower() for column in stored if "." in column.path}
    for wanted in FIELDS:
        if times[wanted.name] > 1:
            raise Malformed(f"{wanted.name}: the column is there twice")
        if wanted.name in nested:
            raise Malformed(f"{wanted.name}: the column must be {wanted.type}")
        if wanted.name not in columns:
            if times[wanted.name]:
                raise Malformed(f"{wanted.name}: the column has another name")
            if wanted.nullable:
                continue
            raise Malformed(f"{wanted.name}: the column is missing")
        column = columns[wanted.name]
        types = (column.physical_type, column.logical_type.type)
        if types not in _STORED_TYPES[wanted.type] or column.max_repetition_level:
            raise Malformed(f"{wanted.name}: the column must be {wanted.type}")


def _check_bounds(footer: Any, size_bytes: int) -> None:
    """A file may be small and unpack to more than a machine holds."""
    if min([footer.num_rows, *(footer.row_group(number).num_rows for number in range(footer.num_row_groups))]) < 0:
        raise Malformed(NOT_WHOLE)
    unpacked = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
    for found, limit, what in (
        (size_bytes, MAX_SEGMENT_BYTES, "bytes"),
        (footer.num_rows, MAX_SEGMENT_ROWS, "rows"),
        (footer.num_columns, MAX_SEGMENT_COLUMNS, "columns"),
        (footer.num_row_groups, MAX_SEGMENT_ROW_GROUPS, "row groups"),
        (unpacked, MAX_UNPACKED_BYTES, "bytes unpacked"),
    ):
        if found > limit:
            raise Malformed(f"{found:,} {what}; a segment has at most {limit:,}")


def _check_values(opened: Any, file: parquet.ParquetFile, size_bytes: int) -> None:
    """Rows times the longest value of a dictionary is the most that they can take. Only where that is too much, or the
    values are not stored so, they are counted."""
    columns = {file.schema.column(place).path: place for place in range(len(file.schema))}
    names = [name for name in _VALUE_COLUMNS if name in columns]
    # As dictionaries, so that a value that all rows share is unpacked once.
    shared = parquet.ParquetFile(opened, metadata=file.metadata, read_dictionary=names)
    limit = MAX_VALUES_BYTES + MAX_VALUES_BYTES_PER_ROW * file.metadata.num_rows
    most = 0
    is_known = True
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        _check_places(group, columns.values(), size_bytes)
        for name in names:
            longest = _longest(shared, number, name)
            is_known &= longest is not None
            most += group.num_rows * (longest or 0)
            most += group.column(columns[name]).total_uncompressed_size
    if most > limit or not is_known:
        _count_values(file, names, limit)


def _check_places(group: Any, columns: Iterable[int], size_bytes: int) -> None:
    for place in columns:
        chunk = group.column(place)
        start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
        if min(start, chunk.total_compressed_size, size_bytes - start - chunk.total_compressed_size) < 0:
            raise Malformed(NOT_WHOLE)


def _longest(shared: parquet.ParquetFile, group: int, name: str) -> int | None:
    """The length of the longest value of a dictionary; None if that cannot be told. The first row brings all of it."""
    try:
        batch = next(shared.iter_batches(1, row_groups=[group], columns=[name], use_threads=False))
    except StopIteration:
        return 0
    except _DAMAGE:
        return None
    column = batch.column(0)
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    _check_length(name, longest)
    return longest


def _count_values(file: parquet.ParquetFile, names: Sequence[str], limit: int) -> None:
    total = 0
    for name in names:
        with suppress(*_DAMAGE):
            for batch in file.iter_batches(_ROWS_COUNTED_AT_ONCE, columns=[name], use_threads=False):
                lengths = pc.binary_length(batch.column(0))
                _check_length(name, pc.max(lengths).as_py() or 0)
                total += pc.sum(lengths).as_py() or 0
                if total > limit:
                    raise Malformed(f"its values take more than {limit:,} bytes when written out")


def _check_length(name: str, longest: int) -> None:
    if longest > MAX_VALUE_BYTES:
        raise Malformed(f"{name}: a value of {longest:,} bytes; one has at most {MAX_VALUE_BYTES:,}")


def _check_days(file: parquet.ParquetFile) -> None:
    """The column is read itself: bounds in a footer are what the file says of itself."""
    days: set[int] = set()
    with suppress(*_DAMAGE):
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
