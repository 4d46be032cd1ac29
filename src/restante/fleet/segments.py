"""Journal segments in a directory (SPEC 13.1): which there are, which can be read, and their rows.

A file that is no whole segment is named with the reason and left out, so one bad copy never stops a report. Whether a
row makes sense is decided in transforms/validate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from restante.fleet.schemas import JOURNAL, JOURNAL_COLUMNS, ROWS, SOURCE_FILE
from restante.model.codes import Code
from restante.model.errors import Malformed, RestanteError
from restante.wire.journal_rows import FIELDS, SCHEMA_VERSION

SEGMENT_PATTERN: Final = "*.parquet"
VERSION_KEY: Final = b"restante.schema_version"
_SHOWN_BYTES: Final = 20  # of a version that somebody else wrote
DRAFT_PREFIXES: Final = (".", "_")  # Spark, like all of its family, takes such names for files in the making

READ_OPTIONS: Final[Mapping[str, str]] = {
    "ignoreCorruptFiles": "true",
    "parquet.page.verify-checksum.enabled": "true",
}

_STORED_TYPES: Final[Mapping[str, frozenset[tuple[str, str]]]] = {
    "binary16": frozenset({("BYTE_ARRAY", "NONE"), ("FIXED_LEN_BYTE_ARRAY", "NONE")}),
    "binary32": frozenset({("BYTE_ARRAY", "NONE"), ("FIXED_LEN_BYTE_ARRAY", "NONE")}),
    "int32": frozenset({("INT32", "NONE"), ("INT32", "INT")}),
    "int64": frozenset({("INT64", "NONE"), ("INT64", "INT")}),
    "string": frozenset({("BYTE_ARRAY", "STRING")}),
}
"""Parquet's physical and logical type for each type word of the journal's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A file whose end is there and whose columns are the journal's; `rows` is what it says it holds."""

    path: Path
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BadSegment:
    """A file that could not be read, or not to its end."""

    name: str
    reason: str


def find_segments(directory: Path) -> tuple[list[Segment], list[BadSegment]]:
    """The segments of a directory in order of their names, and the files that only look like one."""
    if not directory.is_dir():
        raise RestanteError(f"{directory} is not a directory; it should hold journal segments", code=Code.NOT_FOUND)
    paths = sorted(path for path in directory.glob(SEGMENT_PATTERN) if not path.name.startswith(DRAFT_PREFIXES))
    if not paths:
        raise RestanteError(f"{directory} holds no journal segments ({SEGMENT_PATTERN})", code=Code.NOT_FOUND)
    good, bad = [], []
    for path in paths:
        try:
            good.append(inspect_segment(path))
        except Malformed as error:
            bad.append(BadSegment(name=path.name, reason=str(error)))
    return good, bad


def inspect_segment(path: Path) -> Segment:
    """Only the footer is read. It comes last, so a file cut short has none."""
    try:
        with parquet.ParquetFile(path) as file:
            _check_version(file.metadata.metadata or {})
            _check_columns(file.schema)
            return Segment(path=path.absolute(), rows=file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise Malformed("not a whole Parquet file") from error


def _check_version(metadata: Mapping[bytes, bytes]) -> None:
    """A segment of a later version may mean something else by the same columns."""
    version = metadata.get(VERSION_KEY, b"%d" % SCHEMA_VERSION)
    if version != b"%d" % SCHEMA_VERSION:
        shown = version[:_SHOWN_BYTES].decode("ascii", "replace")
        raise Malformed(f"schema version {shown}, and this reads version {SCHEMA_VERSION}")


def _check_columns(schema: parquet.ParquetSchema) -> None:
    columns = {column.path: column for column in map(schema.column, range(len(schema)))}
    unknown = columns.keys() - set(JOURNAL_COLUMNS)
    if unknown:
        raise Malformed(f"{len(unknown)} unknown columns")
    for field in FIELDS:
        if field.name not in columns:
            raise Malformed(f"{field.name}: the column is missing")
        column = columns[field.name]
        stored = (column.physical_type, column.logical_type.type)
        if stored not in _STORED_TYPES[field.type] or column.max_repetition_level:
            raise Malformed(f"{field.name}: the column must be {field.type}")


def damaged(segments: Iterable[Segment], rows_read: Mapping[str, int]) -> list[BadSegment]:
    """The files that gave fewer rows than their footers promise."""
    short = ((segment, rows_read.get(segment.path.name, 0)) for segment in segments)
    return [
        BadSegment(name=segment.path.name, reason=f"damaged: {rows} of {segment.rows} rows could be read")
        for segment, rows in short
        if rows != segment.rows
    ]


def read_segments(spark: SparkSession, segments: Sequence[Segment]) -> DataFrame:
    """The rows of all segments as ROWS. Of a file damaged in the middle come the rows before the damage, perhaps none:
    whoever reads holds the number against `Segment.rows`."""
    if not segments:
        return spark.createDataFrame([], ROWS)
    paths = [as_spark_path(segment.path) for segment in segments]
    reader = spark.read.schema(JOURNAL).options(**READ_OPTIONS)
    # The name comes encoded as in a URL, but for the plus sign, which stands for itself.
    name = sf.url_decode(sf.replace(sf.col("_metadata.file_name"), sf.lit("+"), sf.lit("%2B")))
    return reader.parquet(*paths).select(*JOURNAL_COLUMNS, name.alias(SOURCE_FILE))


def as_spark_path(path: Path) -> str:
    """Spark takes a path for a pattern, so the characters that make patterns are escaped."""
    return "file://" + "".join(f"\\{letter}" if letter in "*?[]{}^\\," else letter for letter in str(path))
