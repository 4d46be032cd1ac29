"""A row is quarantined exactly when the one-machine code refuses the record, and no row gets lost on the way."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from restante.fleet.stream.annotate import annotate_rows
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, ROWS
from restante.fleet.transforms.validate import CONFLICT, events, quarantine, validate_rows
from restante.model.errors import Malformed
from restante.model.ids import WriterId, event_id
from restante.wire.journal_schema import FIELDS, JournalField, from_record
from support.fleet.journal_files import Record, message, writer
from support.fleet.stream_buckets import rows_read
from support.spec.clauses import clause

EVERYTHING: Record = {
    "event_id": event_id(writer(1), 1),
    "at_ms": 1_767_225_600_000,
    "kind": "accepted",
    "writer": writer(1),
    "message_id": message(1),
    "session_tag": bytes(16),
    "sequence": 0,
    "payload_hash": bytes(32),
    "size_bytes": 512,
    "message_kind": "text",
    "priority": 1,
    "attempt": 1,
    "code": "E001",
    "node": bytes(32),
    "latency_ms": 5,
    "ttl_s": 2_592_000,
    "last_sequence": 3,
    "previous_session_tag": bytes(16),
    "evidence_inner_hash": bytes(32),
    "evidence_path": bytes(64),
    "evidence_root": bytes(32),
    "evidence_at_ms": 1_767_225_600_000,
    "evidence_signature": bytes(64),
    "answer": bytes(200),
}
YEAR_10000_MS = 253_402_300_800_000
ODD_VALUES: Mapping[str, tuple[object, ...]] = {
    "event_id": (None, b"", bytes(15), bytes(17), event_id(writer(2), 1), event_id(writer(1), 0)),
    "at_ms": (None, -1, 0, YEAR_10000_MS - 1, YEAR_10000_MS, 2**63 - 1, -(2**63)),
    "kind": (None, "", "ACCEPTED", "accepted ", "accepted\n", "dead", "recovered", "säge"),
    "writer": (None, b"", writer(1)[:15], writer(1) + b"-", writer(2), writer(1)[:8] + bytes(8)),
    "message_id": (
        None,
        bytes(16),
        message(1)[:15],
        b"\x00" * 6 + b"\x40\x00\x7f" + bytes(7),
        b"\x00" * 6 + b"\x40\x00\xbf" + bytes(7),
        b"\x00" * 6 + b"\x40\x00\xc0" + bytes(7),
        b"\x00" * 6 + b"\x10\x00\x80" + bytes(7),
        b"\x0a" * 6 + b"\x4f\x0a\x8a" + b"\x0a" * 7,
    ),
    "session_tag": (None, b"", bytes(17), b"\xff" * 16),
    "sequence": (None, -1, 2**32 - 1, 2**32),
    "payload_hash": (None, bytes(31), bytes(33)),
    "size_bytes": (None, -1, 2**32 - 1, 2**32),
    "message_kind": (None, "", "fax", "Text", "voice_frame", "text\x00"),
    "priority": (None, -1, 0, 2, 3),
    "attempt": (None, -1, 0, 2**31 - 1),
    "code": (None, "", "x" * 40, "x" * 41, "E001\n", "\nE001", "E 1", "E-1", "é", "_", "attempts_exhausted"),
    "node": (None, b"", bytes(16)),
    "latency_ms": (None, -1, 1 - YEAR_10000_MS, -YEAR_10000_MS, YEAR_10000_MS),
    "ttl_s": (None, -1, 2**32 - 1, 2**32),
    "last_sequence": (None, -1, 2**32 - 1, 2**32),
    "previous_session_tag": (None, b"", bytes(15), bytes(17), b"\xff" * 16),
    "evidence_inner_hash": (None, b"", bytes(31), bytes(33)),
    "evidence_path": (None, b"", bytes(1_024), bytes(1_025)),
    "evidence_root": (None, b"", bytes(31), bytes(33)),
    "evidence_at_ms": (None, -1, 0, YEAR_10000_MS - 1, YEAR_10000_MS),
    "evidence_signature": (None, b"", bytes(63), bytes(65)),
    "answer": (None, b"", bytes(8_192), bytes(8_193)),
}
ANY_VALUE: Mapping[str, st.SearchStrategy[object]] = {
    "int32": st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 4),
    "int64": st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 4),
    "string": st.text(max_size=45) | st.from_regex(r"[A-Za-z0-9_]{1,42}"),
}


def any_value(field: JournalField) -> st.SearchStrategy[object]:
    """Values of the column's type; binary ones of any small size, and of the sizes at and beside the bounds."""
    if field.type != "binary":
        return ANY_VALUE[field.type]
    sizes = sorted({max(0, bound + step) for bound in (field.low, field.high) for step in (-1, 0, 1)})
    zeros = st.sampled_from([bytes(size) for size in sizes])
    sound = st.binary(min_size=field.low, max_size=min(field.high, 64))
    return st.binary(max_size=34) | sound | zeros


def refused_column(record: Record) -> str | None:
    """The column for which the one-machine code refuses a record; None when it takes it."""
    try:
        from_record(record)
    except Malformed as error:
        return str(error).split()[0].rstrip(":")
    return None


def frame(spark: SparkSession, rows: Sequence[Record], files: list[str] | None = None) -> DataFrame:
    names = files or [str(place) for place in range(len(rows))]
    values = [(*(row[name] for name in JOURNAL_COLUMNS), file) for row, file in zip(rows, names, strict=True)]
    return spark.createDataFrame(values, ROWS)


def refused_by_spark(spark: SparkSession, rows: Sequence[Record]) -> dict[int, str]:
    refused = quarantine(validate_rows(frame(spark, rows))).collect()
    return {int(row["source_file"]): row["reason"] for row in refused}


def refused_by_arrow(rows: Sequence[Record]) -> dict[int, str]:
    reasons = annotate_rows(rows_read(rows))["reason"].to_pylist()
    return {place: reason for place, reason in enumerate(reasons) if reason is not None}


def numbered(record: Record, number: int) -> Record:
    """With an event_id of its own, where the record's is sound: copies are not what is looked at here."""
    if record["event_id"] != EVERYTHING["event_id"]:
        return record
    return {**record, "event_id": event_id(writer(1), number)}


def assert_backfill_and_stream_refuse_the_same(spark: SparkSession, rows: Sequence[Record]) -> None:
    expected = {place: refused_column(row) for place, row in enumerate(rows)}
    reasons = refused_by_spark(spark, rows)
    found = {place: reason.split(":")[0] for place, reason in reasons.items()}
    differing = {
        place: (column, found.get(place), rows[place])
        for place, column in expected.items()
        if column != found.get(place)
    }
    assert differing == {}
    assert 0 < len(found) < len(rows)
    assert refused_by_arrow(rows) == reasons


@clause("13.1")
def test_the_pipeline_refuses_the_odd_records_that_the_wire_code_refuses(spark: SparkSession) -> None:
    odd = [{**EVERYTHING, name: value} for name, values in ODD_VALUES.items() for value in values]
    rows = [numbered(record, number) for number, record in enumerate([EVERYTHING, *odd], 100)]
    assert_backfill_and_stream_refuse_the_same(spark, rows)


@clause("13.1")
def test_the_pipeline_refuses_whatever_record_the_wire_code_refuses(spark: SparkSession) -> None:
    rows: list[Record] = []
    changed = st.fixed_dictionaries({}, optional={field.name: st.none() | any_value(field) for field in FIELDS}).map(
        lambda drawn: dict(list(drawn.items())[:3])
    )

    sound: set[object] = set()

    @settings(max_examples=400, database=None)
    @example({"writer": bytes(16), "event_id": bytes(16)})
    @example({"writer": bytes(16), "event_id": bytes(16), "priority": 0})
    @given(changed)
    def collect(changes: dict[str, Any]) -> None:
        row = numbered({**EVERYTHING, **changes}, len(rows) + 1)
        if refused_column(row) is None:
            if row["event_id"] in sound:  # a second event under one id is refused for that alone
                return
            sound.add(row["event_id"])
        rows.append(row)

    collect()
    assert_backfill_and_stream_refuse_the_same(spark, rows)


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> DataFrame:
    """Four facts: one once, one in two files, one in one file three times, one in two versions; and three bad rows."""
    one, two, three, four = ({**EVERYTHING, "event_id": event_id(writer(1), number)} for number in range(1, 5))
    bad = {**EVERYTHING, "kind": "sneezed"}
    missing_message_id = {**EVERYTHING, "event_id": None}
    rows = [one, two, two, three, three, three, four, {**four, "code": None}, four, bad, bad, missing_message_id]
    files = ["a", "a", "b", "b", "b", "b", "a", "b", "c", "b", "c", "c"]
    return validate_rows(frame(spark, rows, files)).cache()


@clause("13.1")
def test_every_row_read_is_an_event_a_duplicate_or_quarantined(judged: DataFrame) -> None:
    assert Counter(row["verdict"] for row in judged.collect()) == {"event": 3, "duplicate": 3, "quarantined": 6}


@clause("13.1")
def test_a_fact_that_came_twice_is_one_event(judged: DataFrame) -> None:
    numbers = sorted(int.from_bytes(row["event_id"][8:], "big") for row in events(judged).collect())
    assert numbers == [1, 2, 3]


def test_rows_that_differ_under_one_event_id_are_all_quarantined(judged: DataFrame) -> None:
    refused = Counter((row["source_file"], row["reason"]) for row in quarantine(judged).collect())
    assert refused == {
        ("a", CONFLICT): 1,
        ("b", CONFLICT): 1,
        ("c", CONFLICT): 1,
        ("b", "kind: must be a known word"): 1,
        ("c", "kind: must be a known word"): 1,
        ("c", "event_id: must not be null"): 1,
    }


def test_two_writers_may_use_the_same_number(spark: SparkSession) -> None:
    other = WriterId(b"somebody else's!")
    row = {**EVERYTHING, "writer": other, "event_id": event_id(other, 1)}
    assert events(validate_rows(frame(spark, [EVERYTHING, row]))).count() == 2


@clause("13.1", "13.2")
def test_rows_of_files_that_are_not_signed_change_nothing_about_a_signed_event(spark: SparkSession) -> None:
    """An unsigned copy under a lower name, an unsigned contradiction, and rows that two signed files contradict."""
    one, two = ({**EVERYTHING, "event_id": event_id(writer(1), number)} for number in (1, 2))
    rows = [one, one, {**one, "code": None}, two, {**two, "code": None}, two]
    frames = frame(spark, rows, ["a", "signed1", "b", "signed1", "signed2", "a"])
    validated = validate_rows(frames, signed=frozenset({"signed1", "signed2"})).collect()
    found = sorted((row["event_id"][-1], row["source_file"], row["verdict"], row["reason"]) for row in validated)
    assert found == [
        (1, "a", "duplicate", None),
        (1, "b", "quarantined", CONFLICT),
        (1, "signed1", "event", None),
        (2, "a", "quarantined", CONFLICT),
        (2, "signed1", "quarantined", CONFLICT),
        (2, "signed2", "quarantined", CONFLICT),
    ]
