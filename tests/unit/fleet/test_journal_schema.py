"""The journal's columns as Spark is told of them."""

from restante.fleet.tables.journal_schema import JOURNAL, ROWS
from support.spec.clauses import clause


@clause("13.1")
def test_spark_has_the_columns_of_the_journal_in_their_order() -> None:
    assert [(field.name, field.dataType.simpleString()) for field in JOURNAL] == [
        ("event_id", "binary"),
        ("at_ms", "bigint"),
        ("kind", "string"),
        ("writer", "binary"),
        ("message_id", "binary"),
        ("session_tag", "binary"),
        ("sequence", "bigint"),
        ("payload_hash", "binary"),
        ("size_bytes", "bigint"),
        ("message_kind", "string"),
        ("priority", "int"),
        ("attempt", "int"),
        ("code", "string"),
        ("node", "binary"),
        ("latency_ms", "bigint"),
        ("ttl_s", "bigint"),
        ("last_sequence", "bigint"),
        ("previous_session_tag", "binary"),
        ("evidence_inner_hash", "binary"),
        ("evidence_path", "binary"),
        ("evidence_root", "binary"),
        ("evidence_at_ms", "bigint"),
        ("evidence_signature", "binary"),
        ("answer", "binary"),
    ]


@clause("13.1")
def test_no_column_can_hold_an_address() -> None:
    assert not [field.name for field in JOURNAL if "address" in field.name or field.name in {"sender", "recipient"}]


def test_a_row_that_was_read_knows_its_file() -> None:
    assert ROWS.names[:-1] == JOURNAL.names
    assert ROWS.names[-1] == "source_file"
