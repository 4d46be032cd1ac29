"""Decide which rows of the segments are events (SPEC 13.2). Every row gets exactly one verdict.

The rules for a row are in kernels/row_rules. What an event means for its message is decided elsewhere.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from restante.fleet.kernels.row_rules import row_faults
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, ROWS, SOURCE_FILE

_WITH_REASON: Final = StructType([*ROWS.fields, StructField("reason", StringType())])
_IS_SIGNED: Final = "is_signed"
_SIGNED_FILES: Final = f"{SOURCE_FILE} string, {_IS_SIGNED} boolean"
CONFLICT: Final = "event_id: rows that differ have the same one"


class RowVerdict(StrEnum):
    """What became of a row: the first copy of an event, a further copy, or not understood."""

    EVENT = "event"
    DUPLICATE = "duplicate"
    QUARANTINED = "quarantined"


def validate_rows(rows: DataFrame, signed: frozenset[str] = frozenset()) -> DataFrame:
    """Every row of `rows` with its `verdict` and, if quarantined, the `reason`. `signed` names the signed files.

    A segment may be shipped twice (SPEC 13.1): of equal rows one is the event. Rows that share an event_id and differ
    are all quarantined, because none of them can be proved true. But where signed files have the event, only their rows
    are compared with each other, and one of theirs is the event: no unsigned file can hide it.
    """
    copies = Window.partitionBy("event_id", "reason").orderBy(sf.desc(_IS_SIGNED), SOURCE_FILE)
    all_copies = copies.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    content = sf.struct(*JOURNAL_COLUMNS)
    trusted = sf.when(sf.col(_IS_SIGNED) == sf.max(_IS_SIGNED).over(all_copies), content)
    compared = (
        _with_signed(with_faults(rows), signed)
        .withColumn("trusted", trusted)
        .select(
            *JOURNAL_COLUMNS,
            SOURCE_FILE,
            "reason",
            sf.min("trusted").over(all_copies).alias("lowest"),
            sf.max("trusted").over(all_copies).alias("highest"),
            sf.row_number().over(copies).alias("copy"),
        )
    )
    is_contradicted = (sf.col("lowest") != sf.col("highest")) | (content != sf.col("lowest"))
    reason = sf.coalesce("reason", sf.when(is_contradicted, CONFLICT))
    verdict = (
        sf.when(reason.isNotNull(), RowVerdict.QUARANTINED)
        .when(sf.col("copy") > 1, RowVerdict.DUPLICATE)
        .otherwise(RowVerdict.EVENT)
    )
    return compared.select(*JOURNAL_COLUMNS, SOURCE_FILE, verdict.alias("verdict"), reason.alias("reason"))


def events(validated: DataFrame) -> DataFrame:
    """The events, each once: the columns of the journal."""
    return validated.filter(sf.col("verdict") == RowVerdict.EVENT).select(*JOURNAL_COLUMNS)


def event_rows(validated: DataFrame) -> DataFrame:
    """The events with the file each came from: the rows of the table `events`."""
    return validated.filter(sf.col("verdict") == RowVerdict.EVENT).select(*JOURNAL_COLUMNS, SOURCE_FILE)


def quarantine(validated: DataFrame) -> DataFrame:
    """The rows that were not understood, whole, with the file each came from and the reason."""
    return validated.filter(sf.col("verdict") == RowVerdict.QUARANTINED).select(*JOURNAL_COLUMNS, SOURCE_FILE, "reason")


def with_faults(rows: DataFrame) -> DataFrame:
    """Add the first rule that each row breaks as `reason`; null for a journal event (kernels/row_rules)."""
    return rows.select(*JOURNAL_COLUMNS, SOURCE_FILE).mapInArrow(_find_faults, _WITH_REASON)


def _with_signed(rows: DataFrame, signed: frozenset[str]) -> DataFrame:
    if not signed:
        return rows.withColumn(_IS_SIGNED, sf.lit(False))
    names = rows.sparkSession.createDataFrame([(name, True) for name in sorted(signed)], _SIGNED_FILES)
    known = rows.join(sf.broadcast(names), on=SOURCE_FILE, how="left")
    return known.withColumn(_IS_SIGNED, sf.coalesce(_IS_SIGNED, sf.lit(False)))


def _find_faults(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        yield from rows.append_column("reason", row_faults(rows)).to_batches()
