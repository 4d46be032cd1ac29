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
CONFLICT: Final = "event_id: rows that differ have the same one"


class RowVerdict(StrEnum):
    """What became of a row: the first copy of an event, a further copy, or not understood."""

    EVENT = "event"
    DUPLICATE = "duplicate"
    QUARANTINED = "quarantined"


def validate_rows(rows: DataFrame) -> DataFrame:
    """Every row of `rows` with its `verdict` and, if quarantined, the `reason`.

    A segment may be shipped twice (SPEC 13.1): of equal rows one is the event. Rows that share an event_id and differ
    are all quarantined, because none of them can be proved true.
    """
    copies = Window.partitionBy("event_id", "reason").orderBy(SOURCE_FILE)
    all_copies = copies.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    content = sf.struct(*JOURNAL_COLUMNS)
    validated = with_faults(rows).select(
        *JOURNAL_COLUMNS,
        SOURCE_FILE,
        "reason",
        (sf.min(content).over(all_copies) != sf.max(content).over(all_copies)).alias("copies_differ"),
        sf.row_number().over(copies).alias("copy"),
    )
    reason = sf.coalesce("reason", sf.when(sf.col("copies_differ"), CONFLICT))
    verdict = (
        sf.when(reason.isNotNull(), RowVerdict.QUARANTINED)
        .when(sf.col("copy") > 1, RowVerdict.DUPLICATE)
        .otherwise(RowVerdict.EVENT)
    )
    return validated.select(*JOURNAL_COLUMNS, SOURCE_FILE, verdict.alias("verdict"), reason.alias("reason"))


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


def _find_faults(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        yield from rows.append_column("reason", row_faults(rows)).to_batches()
