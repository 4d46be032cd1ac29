"""What rows tell of incoming sessions is the same for a backfill, told by Spark, and for the stream, told by Arrow."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from restante.fleet.kernels.arrivals_schema import CONTROL_ARRIVED, SESSION_EVENTS
from restante.fleet.kernels.arrivals_words import EVENT_OF_KIND, RECORDED
from restante.fleet.stream.annotate import annotate_rows
from restante.fleet.stream.rows import kernel_events
from restante.fleet.tables.journal_schema import JOURNAL, JOURNAL_COLUMNS
from restante.fleet.transforms.arrivals import session_events
from restante.model.ids import event_id
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from support.fleet.journal_files import Record, message, sealed, writer
from support.fleet.stream_buckets import rows_read
from support.spec.clauses import clause

TAG = bytes(range(16))
CODES = (None, *RECORDED, "E001", TAG.hex())
VALUES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([*EVENT_OF_KIND, *JournalKind]).map(lambda kind: kind.value),
        "code": st.sampled_from(CODES) | st.from_regex(r"[A-Za-z0-9_]{1,40}", fullmatch=True),
        "session_tag": st.none() | st.binary(min_size=16, max_size=16),
        "message_id": st.none() | st.integers(0, 2**40).map(message),
        "payload_hash": st.none() | st.integers(0, 2**32 - 1).map(sealed),
        "sequence": st.none() | st.integers(0, 2**32 - 1),
        "message_kind": st.none() | st.sampled_from([kind.value for kind in Kind]),
    }
)


def record(number: int, values: Record) -> Record:
    plain: Record = {"event_id": event_id(writer(1), number), "at_ms": number, "writer": writer(1)}
    return {**dict.fromkeys(JOURNAL_COLUMNS), **plain, **values}


def facts_of_backfill(spark: SparkSession, rows: Sequence[Record]) -> list[tuple[object, ...]]:
    frame = spark.createDataFrame([tuple(row[name] for name in JOURNAL_COLUMNS) for row in rows], JOURNAL)
    plain = [
        tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)
        for row in session_events(frame).select(*SESSION_EVENTS.names).collect()
    ]
    return sorted(plain)


def facts_of_stream(rows: Sequence[Record]) -> list[tuple[object, ...]]:
    told = annotate_rows(rows_read(rows))
    assert told["reason"].null_count == len(rows), "the rows of this test break no rule"
    return sorted(tuple(row.values()) for row in kernel_events(told).to_pylist())


@clause("13.7")
def test_every_kind_with_every_odd_code_tells_the_same(spark: SparkSession) -> None:
    whole: Record = {"session_tag": TAG, "message_id": message(1), "payload_hash": sealed(1), "sequence": 1}
    rows = [
        record(number, {**whole, "kind": kind.value, "code": code, "message_kind": message_kind})
        for number, (kind, code, message_kind) in enumerate(product(JournalKind, CODES, (None, "text", "control")), 1)
    ]
    found = facts_of_stream(rows)
    assert found == facts_of_backfill(spark, rows)
    of, event = (SESSION_EVENTS.get_field_index(name) for name in ("session_tag", "event"))
    assert {row[of] for row in found} == {TAG}
    assert {row[event] for row in found} == {*EVENT_OF_KIND.values(), CONTROL_ARRIVED}


@clause("13.7")
def test_whatever_rows_tell_the_same(spark: SparkSession) -> None:
    rows: list[Record] = []

    @settings(max_examples=400, database=None)
    @given(VALUES)
    def collect(values: Record) -> None:
        rows.append(record(len(rows) + 1, values))

    collect()
    found = facts_of_stream(rows)
    assert found == facts_of_backfill(spark, rows)
    assert 0 < len(found) < len(rows)


@pytest.mark.parametrize("rows", [[], [record(1, {"kind": JournalKind.ARRIVED.value})]])
def test_rows_that_tell_nothing_make_no_facts(rows: list[Record]) -> None:
    assert facts_of_stream(rows) == []
