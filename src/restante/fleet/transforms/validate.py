"""Decide which rows of the segments are events (SPEC 13.2). Every row gets exactly one verdict.

The rules for a row are in kernels/row_rules. What an event means for its message is decided elsewhere.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from restante.fleet.kernels.row_rules import (
    RFC_9562,
    RULES,
    SHARED_BYTES,
    VARIANT_BYTE,
    VERSION_4,
    VERSION_BYTE,
    Must,
    Rule,
)
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE

CONFLICT: Final = "event_id: rows that differ have the same one"


class RowVerdict(StrEnum):
    """What became of a row: the first copy of an event, a further copy, or not understood."""

    EVENT = "event"
    DUPLICATE = "duplicate"
    QUARANTINED = "quarantined"


def validate_rows(rows: DataFrame) -> DataFrame:
    """Every row of `rows` with its `verdict` and, if quarantined, the `reason`.

    A segment may be shipped twice (SPEC 13.1): of equal rows one is the event. Rows that share an event_id and differ
    are all quarantined, for nobody can say which of them is true.
    """
    copies = Window.partitionBy("event_id", "reason").orderBy(SOURCE_FILE)
    all_copies = copies.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    content = sf.struct(*JOURNAL_COLUMNS)
    judged = rows.withColumn("reason", row_fault()).select(
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
    return judged.select(*JOURNAL_COLUMNS, SOURCE_FILE, verdict.alias("verdict"), reason.alias("reason"))


def events(judged: DataFrame) -> DataFrame:
    """The events, each once: the columns of the journal."""
    return judged.filter(sf.col("verdict") == RowVerdict.EVENT).select(*JOURNAL_COLUMNS)


def quarantine(judged: DataFrame) -> DataFrame:
    """The rows that were not understood, whole, with the file each came from and the reason."""
    return judged.filter(sf.col("verdict") == RowVerdict.QUARANTINED).select(*JOURNAL_COLUMNS, SOURCE_FILE, "reason")


def row_fault() -> Column:
    """The first rule that a row breaks, as `column: rule`; null when it is a journal row."""
    broken = ((_BROKEN[rule.must](sf.col(rule.field.name), rule), rule.text) for rule in RULES)
    return sf.coalesce(*(sf.when(is_broken, reason) for is_broken, reason in broken))


def _is_no_uuid(column: Column, _rule: Rule) -> Column:
    # Compared as bytes: a pattern over hexadecimal digits takes longer.
    return ~(_byte(column, VERSION_BYTE, *VERSION_4) & _byte(column, VARIANT_BYTE, *RFC_9562))


def _byte(column: Column, place: int, low: bytes, high: bytes) -> Column:
    return sf.substring(column, place + 1, 1).between(sf.lit(low), sf.lit(high))


def _starts_otherwise(column: Column, _rule: Rule) -> Column:
    return sf.substring(column, 1, SHARED_BYTES) != sf.substring("writer", 1, SHARED_BYTES)


_BROKEN: Final[dict[Must, Callable[[Column, Rule], Column]]] = {
    Must.BE_THERE: lambda column, _rule: column.isNull(),
    Must.HAVE_BYTES: lambda column, rule: sf.length(column) != rule.size_bytes,
    Must.BE_A_WORD: lambda column, rule: ~column.isin(*rule.field.words),
    Must.MATCH: lambda column, rule: ~column.rlike(rule.whole_pattern),
    Must.BE_BETWEEN: lambda column, rule: ~column.between(rule.field.low, rule.field.high),
    Must.BE_A_UUID: _is_no_uuid,
    Must.START_AS_ITS_WRITER: _starts_otherwise,
}
