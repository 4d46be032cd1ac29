"""wire/journal_schema: the one schema of the journal."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed
from restante.model.ids import MessageId, NodeId, PayloadHash, SessionTag, WriterId, event_id, mint_message_id
from restante.model.journal import EventColumns, JournalEvent, JournalKind
from restante.model.kinds import Kind, Priority
from restante.wire.journal_schema import FIELDS, from_record, to_record
from support.spec.clauses import clause

WRITER = WriterId(b"\xa1" * 16)
ROW = JournalEvent(
    event_id=event_id(WRITER, 1),
    at_ms=1_700_000_000_000,
    kind=JournalKind.ACCEPTED,
    writer=WRITER,
    message_id=MessageId(bytes.fromhex("9f1c5a3e6d0b4c1e8a572f4e0c9b7d11")),
    session_tag=SessionTag(bytes(16)),
    sequence=300,
    payload_hash=PayloadHash(bytes(32)),
    size_bytes=14,
    message_kind=Kind.TEXT,
    priority=Priority.NORMAL,
    attempt=1,
    code="E004",
    node=NodeId(bytes(32)),
    latency_ms=12,
    ttl_s=2_592_000,
)
REQUIRED = {"event_id", "at_ms", "kind", "writer"}
LATEST = 253_402_300_799_999

binary16 = st.binary(min_size=16, max_size=16)
binary32 = st.binary(min_size=32, max_size=32)
u32 = st.integers(0, 2**32 - 1)


@st.composite
def rows(draw: st.DrawFn) -> JournalEvent:
    writer = WriterId(draw(binary16))
    return JournalEvent(
        event_id=event_id(writer, draw(st.integers(0, 2**64 - 1))),
        at_ms=draw(st.integers(0, LATEST)),
        kind=draw(st.sampled_from(JournalKind)),
        writer=writer,
        message_id=draw(st.none() | binary16.map(mint_message_id)),
        session_tag=draw(st.none() | binary16.map(SessionTag)),
        sequence=draw(st.none() | u32),
        payload_hash=draw(st.none() | binary32.map(PayloadHash)),
        size_bytes=draw(st.none() | u32),
        message_kind=draw(st.none() | st.sampled_from(Kind)),
        priority=draw(st.none() | st.sampled_from(Priority)),
        attempt=draw(st.none() | st.integers(0, 2**31 - 1)),
        code=draw(st.none() | st.from_regex(r"[A-Za-z0-9_]{1,40}", fullmatch=True)),
        node=draw(st.none() | binary32.map(NodeId)),
        latency_ms=draw(st.none() | st.integers(-LATEST, LATEST)),
        ttl_s=draw(st.none() | u32),
        last_sequence=draw(st.none() | u32),
        previous_session_tag=draw(st.none() | binary16.map(SessionTag)),
        evidence_inner_hash=draw(st.none() | binary32),
        evidence_path=draw(st.none() | st.binary(max_size=1_024)),
        evidence_root=draw(st.none() | binary32),
        evidence_at_ms=draw(st.none() | st.integers(0, LATEST)),
        evidence_signature=draw(st.none() | st.binary(min_size=64, max_size=64)),
        answer=draw(st.none() | st.binary(max_size=8_192)),
    )


@clause("13.1")
@given(rows())
def test_a_row_survives_the_round_trip(row: JournalEvent) -> None:
    assert from_record(to_record(row)) == row


@clause("13.1")
def test_the_columns_are_those_of_the_specification_in_its_order() -> None:
    listed = (
        "event_id at_ms kind writer message_id session_tag sequence payload_hash size_bytes message_kind priority "
        "attempt code node latency_ms ttl_s last_sequence previous_session_tag evidence_inner_hash evidence_path "
        "evidence_root evidence_at_ms evidence_signature answer"
    )
    assert [field.name for field in FIELDS] == listed.split()
    assert [field.name for field in fields(JournalEvent)] == listed.split()
    assert ["event_id", "at_ms", "kind", "writer", *EventColumns.__annotations__] == listed.split()
    assert {field.name for field in FIELDS if not field.nullable} == REQUIRED
    assert all(field.doc for field in FIELDS)


@given(rows())
def test_a_record_holds_plain_values_only(row: JournalEvent) -> None:
    record = to_record(row)
    assert list(record) == [field.name for field in FIELDS]
    assert {type(value) for value in record.values()} <= {bytes, int, str, type(None)}


@clause("13.1")
@pytest.mark.parametrize("name", ["address", "sender", "recipient", "body", ""])
def test_a_column_outside_the_schema_is_refused(name: str) -> None:
    with pytest.raises(Malformed, match=f"'{name}' is no column of schema version 1"):
        from_record(to_record(ROW) | {name: b"\0" * 32})


def test_the_name_of_an_unknown_column_is_not_repeated_at_length() -> None:
    with pytest.raises(Malformed) as caught:
        from_record(to_record(ROW) | {"x" * 10_000: None})
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("name", [field.name for field in FIELDS])
def test_a_missing_column_is_refused_by_name(name: str) -> None:
    record = to_record(ROW)
    del record[name]
    with pytest.raises(Malformed, match=f"^{name}: the column is missing"):
        from_record(record)


@pytest.mark.parametrize("name", [field.name for field in FIELDS])
def test_null_is_refused_exactly_where_a_value_is_required(name: str) -> None:
    record = to_record(ROW) | {name: None}
    if name in REQUIRED:
        with pytest.raises(Malformed, match=f"^{name}: must not be null"):
            from_record(record)
    else:
        assert getattr(from_record(record), name) is None


OF_ANOTHER_TYPE = {
    "binary": ["0" * 16, 1, bytearray(16), memoryview(bytes(16))],
    "int32": [1.0, "1", True, b"1"],
    "int64": [1.0, "1", True, b"1"],
    "string": [b"text", 1, True],
}


@pytest.mark.parametrize(
    ("name", "value"), [(field.name, value) for field in FIELDS for value in OF_ANOTHER_TYPE[field.type]]
)
def test_a_value_of_another_type_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(Malformed, match=f"^{name}: must be"):
        from_record(to_record(ROW) | {name: value})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("event_id", bytes(15), "must have 16 bytes, not 15"),
        ("writer", bytes(17), "must have 16 bytes, not 17"),
        ("session_tag", bytes(32), "must have 16 bytes, not 32"),
        ("payload_hash", bytes(16), "must have 32 bytes, not 16"),
        ("node", b"", "must have 32 bytes, not 0"),
        ("evidence_signature", bytes(63), "must have 64 bytes, not 63"),
        ("evidence_path", bytes(1_025), "must have 0 to 1024 bytes, not 1025"),
        ("answer", bytes(8_193), "must have 0 to 8192 bytes, not 8193"),
        ("last_sequence", 2**32, "must be in 0..4294967295"),
        ("at_ms", -1, "must be in 0..253402300799999"),
        ("at_ms", LATEST + 1, "must be in 0..253402300799999"),
        ("sequence", -1, "must be in 0..4294967295"),
        ("sequence", 2**32, "must be in 0..4294967295"),
        ("size_bytes", -1, "must be in 0..4294967295"),
        ("priority", -1, "must be in 0..2"),
        ("priority", 3, "must be in 0..2"),
        ("attempt", -1, "must be in 0..2147483647"),
        ("attempt", 2**31, "must be in 0..2147483647"),
        ("latency_ms", LATEST + 1, "must be in -253402300799999..253402300799999"),
        ("ttl_s", 2**32, "must be in 0..4294967295"),
        ("kind", "Accepted", "must be one of accepted, "),
        ("kind", "", "must be one of accepted, "),
        ("message_kind", "telegram", "must be one of text, "),
        ("code", "", "must match [A-Za-z0-9_]{1,40}"),
        ("code", "x" * 41, "must match [A-Za-z0-9_]{1,40}"),
        ("code", "E004\n", "must match [A-Za-z0-9_]{1,40}"),
        ("code", "rst1 qqq", "must match [A-Za-z0-9_]{1,40}"),
        ("code", "É004", "must match [A-Za-z0-9_]{1,40}"),
    ],
)
def test_a_value_outside_its_range_is_refused_with_column_and_reason(name: str, value: object, reason: str) -> None:
    with pytest.raises(Malformed) as caught:
        from_record(to_record(ROW) | {name: value})
    assert str(caught.value).startswith(f"{name}: {reason}")


@clause("2.1")
def test_a_message_id_in_the_journal_is_a_uuid4() -> None:
    with pytest.raises(Malformed, match=r"^message_id: must be a UUIDv4"):
        from_record(to_record(ROW) | {"message_id": bytes(16)})


def test_an_event_id_begins_with_its_writer() -> None:
    with pytest.raises(Malformed, match=r"^event_id: must start with the first 8 bytes of the writer"):
        from_record(to_record(ROW) | {"writer": b"\xa2" + b"\xa1" * 15})
    other_second_half = b"\xa1" * 8 + b"\xff" * 8
    assert from_record(to_record(ROW) | {"writer": other_second_half}).writer == other_second_half


def test_two_clocks_that_disagree_do_not_cost_a_row() -> None:
    assert from_record(to_record(ROW) | {"latency_ms": -5}).latency_ms == -5


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.lists(st.none())


@given(st.dictionaries(st.sampled_from([field.name for field in FIELDS]) | st.text(max_size=5), anything))
def test_whatever_a_record_holds_it_is_a_row_or_malformed(changes: dict[str, object]) -> None:
    record = to_record(ROW) | changes
    try:
        row = from_record(record)
    except Malformed:
        return
    assert to_record(row) == record
