"""Which rows of the segments are facts (SPEC 13.2). Nothing is dropped: every row read gets exactly one verdict.

The checks of a row are made from the same table of columns that wire/journal_rows holds a record against, and refuse
the same rows. What a fact means for its message is not known here.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from restante.fleet.schemas import JOURNAL_COLUMNS, SOURCE_FILE
from restante.wire.journal_rows import FIELDS, JournalField

CONFLICT: Final = "event_id: rows that differ have the same one"
_SHARED_BYTES: Final = 8  # of writer and event id, see model.ids.event_id
_BINARY_BYTES: Final = {"binary16": 16, "binary32": 32}


class RowVerdict(StrEnum):
    """What became of a row: the first copy of a fact, a further copy, or not understood."""

    EVENT = "event"
    DUPLICATE = "duplicate"
    QUARANTINED = "quarantined"


def judge(rows: DataFrame) -> DataFrame:
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
    """The facts, each once: the columns of the journal."""
    return judged.filter(sf.col("verdict") == RowVerdict.EVENT).select(*JOURNAL_COLUMNS)


def quarantine(judged: DataFrame) -> DataFrame:
    """The rows that were not understood, whole, with the file each came from and the reason."""
    return judged.filter(sf.col("verdict") == RowVerdict.QUARANTINED).select(*JOURNAL_COLUMNS, SOURCE_FILE, "reason")


def row_fault() -> Column:
    """The first thing wrong with a row, as `column: rule`; null when it is a journal row."""
    return sf.coalesce(*(sf.when(is_wrong, reason) for is_wrong, reason in _checks()))


def _checks() -> Iterator[tuple[Column, str]]:
    for field in FIELDS:
        if not field.nullable:
            yield sf.col(field.name).isNull(), f"{field.name}: must not be null"
        yield _check(field)
    # Version 4 and the variant of RFC 9562, compared as bytes: a pattern over hexadecimal digits takes longer.
    yield (
        ~(_byte("message_id", 7, b"\x40", b"\x4f") & _byte("message_id", 9, b"\x80", b"\xbf")),
        "message_id: must be a UUIDv4",
    )
    yield (
        sf.substring("event_id", 1, _SHARED_BYTES) != sf.substring("writer", 1, _SHARED_BYTES),
        f"event_id: must start with the first {_SHARED_BYTES} bytes of the writer",
    )


def _byte(name: str, place: int, low: bytes, high: bytes) -> Column:
    return sf.substring(name, place, 1).between(sf.lit(low), sf.lit(high))


def _check(field: JournalField) -> tuple[Column, str]:
    """The rule of one column. It says nothing (null) about a null."""
    column = sf.col(field.name)
    if field.type in _BINARY_BYTES:
        size = _BINARY_BYTES[field.type]
        return sf.length(column) != size, f"{field.name}: must have {size} bytes"
    if field.words:
        return ~column.isin(*field.words), f"{field.name}: must be a known word"
    if field.pattern:
        return ~column.rlike(rf"\A(?:{field.pattern})\z"), f"{field.name}: must match {field.pattern}"
    return ~column.between(field.low, field.high), f"{field.name}: must be in {field.low}..{field.high}"
