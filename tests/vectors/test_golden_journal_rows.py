"""journal_row.json: the schema, and a row of an endpoint and of a node."""

from typing import Any

import pytest

from restante.model.ids import event_number
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.wire.journal_schema import FIELDS, SCHEMA_VERSION, from_record, to_record
from support.spec.clauses import clause
from support.wire.golden_vectors import load

GOLDEN = load("journal_row")
BINARY = {column["name"] for column in GOLDEN["columns"] if column["type"].startswith("binary")}


def record_of(name: str) -> dict[str, Any]:
    (stored,) = (row["record"] for row in GOLDEN["rows"] if row["name"] == name)
    return {key: bytes.fromhex(value) if key in BINARY and value else value for key, value in stored.items()}


@clause("13.1")
def test_the_schema_keeps_its_version_columns_and_types() -> None:
    assert GOLDEN["schema_version"] == SCHEMA_VERSION
    assert GOLDEN["columns"] == [
        {"name": field.name, "type": field.type, "nullable": field.nullable} for field in FIELDS
    ]


@clause("13.1")
@pytest.mark.parametrize("name", ["accepted", "stored"])
def test_records_are_read_and_written_as_ever(name: str) -> None:
    record = record_of(name)
    assert to_record(from_record(record)) == record


def test_the_row_of_an_endpoint_means_what_it_meant() -> None:
    row = from_record(record_of("accepted"))
    assert (row.kind, row.message_kind, row.priority) == (JournalKind.ACCEPTED, Kind.TEXT, Priority.NORMAL)
    assert (row.sequence, row.size_bytes, row.ttl_s) == (300, 14, 2_592_000)
    assert event_number(row.event_id) == 1


@clause("13.1")
def test_the_row_of_a_node_names_no_message_but_its_sealed_bytes() -> None:
    endpoint, node = from_record(record_of("accepted")), from_record(record_of("stored"))
    assert (node.message_id, node.message_kind, node.sequence) == (None, None, None)
    assert node.payload_hash == endpoint.payload_hash
    assert event_number(node.event_id) == 258
