"""One small fleet with every kind of trouble, and what each table says of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from restante.fleet.tables.definitions import FleetTables
from restante.model.ids import MessageId
from support.fleet.dataframes import tables_of
from support.fleet.journal_files import message, node_id, sealed
from support.fleet.troubled_fleet import (
    ANEW,
    BAD,
    DAY_MS,
    DEAD,
    DELIVERED,
    DROPPED,
    HELD,
    HIDDEN,
    KEPT_TO_THE_END,
    LIAR_ID,
    LOST,
    NOON_MS,
    NOW_MS,
    OLD_COPY,
    RECIPIENT,
    RESEALED,
    SENDER,
    SLANDERED,
    SWALLOWED,
    TWICE_STORED,
    troubled_fleet,
)
from support.spec.clauses import clause


@pytest.fixture(scope="module")
def fleet(spark: SparkSession) -> Iterator[FleetTables]:
    with tables_of(spark, *troubled_fleet(), now_ms=NOW_MS) as tables:
        yield tables


def rows(table: FleetTables, name: str, *columns: str) -> set[tuple[Any, ...]]:
    found = table[name].select(*columns).collect()
    assert len(set(found)) == len(found)
    return {tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in found}


@clause("13.5")
def test_a_node_is_named_by_what_it_signed_and_by_nothing_else(fleet: FleetTables) -> None:
    """Neither what its own journal lacks nor a forged receipt names a node."""
    assert rows(fleet, "withholding", "node", "message_id", "payload_hash", "stored_at_ms", "absent_at_ms") == {
        (LIAR_ID, message(HIDDEN), sealed(HIDDEN), NOON_MS + 30, NOON_MS + 95)
    }
    assert rows(fleet, "conservation", "stored_never_arrived") == {(1,)}  # LOST accuses no node


def test_replicas_join_nodes_and_messages_by_the_hash_of_the_sealed_bytes(fleet: FleetTables) -> None:
    assert rows(fleet, "replicas", "message_id", "node", "state") == {
        (message(DELIVERED), node_id(1), "deleted"),
        (message(HELD), node_id(1), "held"),
        (message(KEPT_TO_THE_END), node_id(1), "reaped"),
        (message(OLD_COPY), node_id(1), "held"),
        (message(DROPPED), node_id(2), "reaped"),
        (message(TWICE_STORED), node_id(1), "held"),
        (message(TWICE_STORED), node_id(2), "reaped"),
        (message(RESEALED), node_id(1), "deleted"),
        (message(RESEALED), node_id(2), "held"),
        (message(HIDDEN), node_id(1), "held"),
        (message(SLANDERED), node_id(1), "held"),
        (None, node_id(2), "held"),
    }


@clause("8.7")
def test_a_message_that_was_sealed_anew_is_one_message_under_both_its_hashes(fleet: FleetTables) -> None:
    columns = ("message_id", "payload_hash", "size_bytes", "arrivals", "inconsistency")
    [found] = [row for row in rows(fleet, "messages", *columns) if row[0] == message(RESEALED)]
    assert found[1:] == (sealed(ANEW), 1_024, 1, None)
    assert message(RESEALED) not in {row[0] for row in rows(fleet, "withholding", "message_id")}


def test_dead_letters_have_a_row_each_and_tombstones_too(fleet: FleetTables) -> None:
    assert rows(fleet, "dead_letters", "message_id", "category", "next_retry_at_ms") == {
        (message(DEAD), "retriable", NOON_MS + 2 * DAY_MS),
        (message(LOST), "expired", None),
    }


@clause("13.6")
def test_actions_name_who_should_do_what_and_why(fleet: FleetTables) -> None:
    found = rows(fleet, "actions", "action", "target", "message_id", "payload_hash", "node", "event_at_ms", "reason")
    sent_again: set[MessageId] = {row[2] for row in found if row[0] == "retransmit"}
    assert sent_again == {message(SWALLOWED), message(DROPPED), message(KEPT_TO_THE_END)}
    others = {row for row in found if row[0] != "retransmit"}
    assert others == {
        ("repair", BAD, None, sealed(TWICE_STORED), None, NOON_MS + 60, "too_few_copies"),
        ("redrive", SENDER, message(DEAD), None, None, NOON_MS + DAY_MS, "daily_retry_due"),
        ("scoreboard", None, None, None, node_id(1), None, "measured"),
        ("scoreboard", None, None, None, node_id(2), None, "measured"),
    }


def test_service_levels_count_by_hour_kind_and_priority_and_for_all(fleet: FleetTables) -> None:
    columns = ("message_kind", "priority", "is_total", "accepted", "delivered", "in_flight", "delivery_rate", "p50_ms")
    assert rows(fleet, "service_levels", *columns, "p99_ms", "duplicates", "repeated_releases") == {
        ("text", 1, False, 11, 4, 6, 4 / 5, 208.5, 210.97, 1, 0),
        ("media", 0, False, 1, 0, 0, 0.0, None, None, 0, 0),
        (None, None, True, 12, 4, 6, 4 / 6, 208.5, 210.97, 1, 0),
    }
    assert rows(fleet, "latency_histogram", "lower_bound_ms", "messages") == {(200, 4)}


def test_gaps_and_security_events_are_listed(fleet: FleetTables) -> None:
    assert rows(fleet, "gaps", "writer", "first_sequence", "last_sequence") == {(RECIPIENT, 4, 6)}
    assert rows(fleet, "security_events", "writer", "code", "message_id") == {
        (RECIPIENT, "collision", message(DELIVERED))
    }
