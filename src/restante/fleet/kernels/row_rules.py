"""What a row of a segment must keep to, as a table of rules, and which rows of a batch break one (SPEC 13.2).

The rules are derived from the columns of wire/journal_schema and refuse the same rows as it does. One more is about the
file: a segment that is named after a writer holds no event of another. Backfill and stream both find the first broken
rule of a row here.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.wire.journal_schema import FIELDS, JournalField

SHARED_BYTES: Final = 8  # of writer and event id, see model.ids.event_id
VERSION_BYTE: Final = 6  # of a UUID, counted from 0
VARIANT_BYTE: Final = 8
VERSION_4: Final = (b"\x40", b"\x4f")
RFC_9562: Final = (b"\x80", b"\xbf")
SOURCE_FILE: Final = "source_file"
OTHER_WRITER: Final = "writer: must be the one that the segment is named after"
_SEGMENT_NAME: Final = re.compile(r"([0-9a-f]{32})-.*\.parquet")  # as a signed manifest has it


class Must(Enum):
    """What a rule asks for. But for the first, none says anything of a null."""

    BE_THERE = auto()
    HAVE_BYTES = auto()
    BE_A_WORD = auto()
    MATCH = auto()
    BE_BETWEEN = auto()
    BE_A_UUID = auto()
    START_AS_ITS_WRITER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`text` is the reason given for a row that breaks it: `column: rule`."""

    field: JournalField
    must: Must
    text: str

    @property
    def whole_pattern(self) -> str:
        return rf"\A(?:{self.field.pattern})\z"


def _rules() -> Iterator[Rule]:
    columns = {field.name: field for field in FIELDS}
    for field in FIELDS:
        if not field.nullable:
            yield Rule(field=field, must=Must.BE_THERE, text=f"{field.name}: must not be null")
        must, words = _must(field)
        yield Rule(field=field, must=must, text=f"{field.name}: must {words}")
    yield Rule(field=columns["message_id"], must=Must.BE_A_UUID, text="message_id: must be a UUIDv4")
    yield Rule(
        field=columns["event_id"],
        must=Must.START_AS_ITS_WRITER,
        text=f"event_id: must start with the first {SHARED_BYTES} bytes of the writer",
    )


def _must(field: JournalField) -> tuple[Must, str]:
    if field.type == "binary":
        return Must.HAVE_BYTES, field.size_rule
    if field.words:
        return Must.BE_A_WORD, "be a known word"
    if field.pattern:
        return Must.MATCH, f"match {field.pattern}"
    return Must.BE_BETWEEN, f"be in {field.low}..{field.high}"


RULES: Final = tuple(_rules())
"""In the order in which they are asked: the first that is broken is the reason."""


def row_faults(rows: Any) -> Any:
    """For each row of a table with the journal's columns the first rule that it breaks, as text; null for an event."""
    first = np.full(len(rows), -1, dtype=np.int16)
    for number, rule in enumerate(RULES):
        broken = _BROKEN[rule.must](rows[rule.field.name], rule, rows)
        if pc.any(broken).as_py():
            first[np.asarray(pc.fill_null(broken, False)) & (first < 0)] = number
    if SOURCE_FILE in rows.column_names:
        first[_is_of_another_writer(rows[SOURCE_FILE], rows["writer"]) & (first < 0)] = len(RULES)
    texts = pa.array([*(rule.text for rule in RULES), OTHER_WRITER], pa.string())
    return texts.take(pa.array(first, mask=first < 0))


def _is_of_another_writer(files: Any, writers: Any) -> Any:
    """Whether a row is in a segment that is named after another writer. Rows come by file: few names, few writers."""
    names = files.combine_chunks().dictionary_encode()
    found = [_SEGMENT_NAME.fullmatch(name or "") for name in names.dictionary.to_pylist()]
    owners = pa.array([None if one is None else bytes.fromhex(one[1]) for one in found], pa.binary())
    if owners.null_count == len(owners):
        return np.zeros(len(files), dtype=np.bool_)
    if len(owners) == 1:
        return np.asarray(pc.fill_null(pc.not_equal(writers, owners[0]), False))
    return np.asarray(pc.fill_null(pc.not_equal(owners.take(names.indices), writers), False))


def _is_missing(column: Any, _rule: Rule, _rows: Any) -> Any:
    return pc.is_null(column)


def _has_other_size(column: Any, rule: Rule, _rows: Any) -> Any:
    length = pc.binary_length(column)
    return pc.or_(pc.less(length, rule.field.low), pc.greater(length, rule.field.high))


def _is_no_word(column: Any, rule: Rule, _rows: Any) -> Any:
    known = pc.is_in(column, value_set=pa.array(rule.field.words, pa.string()))
    return pc.and_(pc.is_valid(column), pc.invert(known))


def _does_not_match(column: Any, rule: Rule, _rows: Any) -> Any:
    """A column of codes has few different ones."""
    codes = column.combine_chunks().dictionary_encode()
    matches = pc.match_substring_regex(codes.dictionary, rule.whole_pattern)
    return pc.invert(matches.take(codes.indices))


def _is_outside(column: Any, rule: Rule, _rows: Any) -> Any:
    return pc.or_(pc.less(column, rule.field.low), pc.greater(column, rule.field.high))


def _is_no_uuid(column: Any, _rule: Rule, _rows: Any) -> Any:
    return pc.or_(_byte_is_outside(column, VERSION_BYTE, *VERSION_4), _byte_is_outside(column, VARIANT_BYTE, *RFC_9562))


def _byte_is_outside(column: Any, place: int, low: bytes, high: bytes) -> Any:
    byte = pc.binary_slice(column, place, place + 1)
    return pc.or_(pc.less(byte, low), pc.greater(byte, high))


def _starts_otherwise(column: Any, _rule: Rule, rows: Any) -> Any:
    return pc.not_equal(pc.binary_slice(column, 0, SHARED_BYTES), pc.binary_slice(rows["writer"], 0, SHARED_BYTES))


_BROKEN: Final[dict[Must, Callable[[Any, Rule, Any], Any]]] = {
    Must.BE_THERE: _is_missing,
    Must.HAVE_BYTES: _has_other_size,
    Must.BE_A_WORD: _is_no_word,
    Must.MATCH: _does_not_match,
    Must.BE_BETWEEN: _is_outside,
    Must.BE_A_UUID: _is_no_uuid,
    Must.START_AS_ITS_WRITER: _starts_otherwise,
}
