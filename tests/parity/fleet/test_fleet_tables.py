"""One small fleet with every kind of trouble, and what each table says of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from restante.fleet.tables.definitions import FleetTables
from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from support.fleet.dataframes import tables_of
from support.fleet.journal_files import Journal, message, node_id, sealed, writer
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = NOON_MS + 3 * DAY_MS
SENDER, RECIPIENT, GOOD, BAD, SILENT = (writer(number) for number in range(1, 6))
DELIVERED, HELD, SWALLOWED, DROPPED, KEPT_TO_THE_END, LOST, DEAD, OLD_COPY, TWICE_STORED, RESEALED = range(10)
ANEW = 50
"""What the last one was sealed as for another session."""


def accept(sender: Journal, number: int, at_ms: int = NOON_MS, **fields: Any) -> None:
    details = {"message_kind": Kind.TEXT, "priority": Priority.NORMAL, "ttl_s": 30 * 86_400} | fields
    sender.write(JournalKind.ACCEPTED, message(number), at_ms, payload_hash=sealed(number), size_bytes=512, **details)


def confirm(sender: Journal, number: int, node: int, at_ms: int = NOON_MS) -> None:
    sender.write(JournalKind.ATTEMPTED, message(number), at_ms + 10, attempt=1)
    sender.write(JournalKind.DELIVERY_CONFIRMED, message(number), at_ms + 40, node=node_id(node))
    sender.write(JournalKind.SENT, message(number), at_ms + 40)


def store(node: Journal, number: int, *, ttl_s: int = 30 * 86_400) -> None:
    node.write(JournalKind.STORED, None, NOON_MS + 30, payload_hash=sealed(number), size_bytes=512, ttl_s=ttl_s)


@pytest.fixture(scope="module")
def fleet(spark: SparkSession) -> Iterator[FleetTables]:
    sender, recipient, good, bad = (Journal(who) for who in (SENDER, RECIPIENT, GOOD, BAD))
    good.write(JournalKind.NODE_STARTED, None, NOON_MS, node=node_id(1))
    bad.write(JournalKind.NODE_STARTED, None, NOON_MS, node=node_id(2))
    for number, node in (
        (DELIVERED, 1),
        (HELD, 1),
        (SWALLOWED, 2),
        (DROPPED, 2),
        (KEPT_TO_THE_END, 1),
        (OLD_COPY, 1),
        (TWICE_STORED, 1),
    ):
        accept(sender, number)
        confirm(sender, number, node)
    for number in (DELIVERED, HELD, OLD_COPY, TWICE_STORED):
        store(good, number)
    store(bad, TWICE_STORED)
    bad.write(JournalKind.REAPED, None, NOON_MS + 60, payload_hash=sealed(TWICE_STORED))
    store(good, KEPT_TO_THE_END, ttl_s=3_600)
    store(bad, DROPPED)
    good.write(JournalKind.DELETED, None, NOON_MS + 90, payload_hash=sealed(DELIVERED))
    good.write(JournalKind.REAPED, None, NOON_MS + HOUR_MS + 30, payload_hash=sealed(KEPT_TO_THE_END))
    bad.write(JournalKind.REAPED, None, NOON_MS + HOUR_MS, payload_hash=sealed(DROPPED))
    bad.write(JournalKind.STORED, None, NOON_MS + 2 * HOUR_MS, payload_hash=sealed(99), size_bytes=512, ttl_s=60)
    for number in (DELIVERED, OLD_COPY):
        arrive(recipient, number)
        sender.write(JournalKind.DELIVERED, message(number), NOON_MS + 200 + number)
    recipient.write(JournalKind.ARRIVED, message(DELIVERED), NOON_MS + 130, code="duplicate")
    recipient.write(
        JournalKind.GAP_SKIPPED, None, NOON_MS + HOUR_MS, session_tag=b"t" * 16, sequence=4, last_sequence=6
    )
    recipient.write(JournalKind.SECURITY, message(DELIVERED), NOON_MS + 300, code="collision")
    accept(sender, RESEALED)
    confirm(sender, RESEALED, 1)
    store(good, RESEALED)
    good.write(JournalKind.DELETED, None, NOON_MS + 90, payload_hash=sealed(RESEALED))
    sender.write(
        JournalKind.REENCRYPTED,
        message(RESEALED),
        NOON_MS + 100,
        payload_hash=sealed(ANEW),
        size_bytes=1_024,
        sequence=0,
    )
    confirm(sender, RESEALED, 2, NOON_MS + 110)
    store(bad, ANEW)
    recipient.write(
        JournalKind.ARRIVED, message(RESEALED), NOON_MS + 190, code="new", payload_hash=sealed(ANEW), sequence=0
    )
    accept(sender, LOST, message_kind=Kind.MEDIA, priority=Priority.LOW)
    confirm(sender, LOST, 3)
    sender.write(JournalKind.EXPIRED, message(LOST), NOON_MS + DAY_MS, code="E010")
    accept(sender, DEAD)
    sender.write(JournalKind.DEAD_LETTERED, message(DEAD), NOON_MS + DAY_MS, code="attempts_exhausted", attempt=15)
    with tables_of(spark, sender, recipient, good, bad, now_ms=NOW_MS) as tables:
        yield tables


def arrive(recipient: Journal, number: int) -> None:
    recipient.write(JournalKind.ARRIVED, message(number), NOON_MS + 100, code="new", payload_hash=sealed(number))
    recipient.write(JournalKind.RELEASED, message(number), NOON_MS + 100)


def rows(table: FleetTables, name: str, *columns: str) -> set[tuple[Any, ...]]:
    found = table[name].select(*columns).collect()
    assert len(set(found)) == len(found)
    return {tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in found}


@clause("13.5")
def test_nodes_that_signed_and_did_not_keep_are_named_and_the_others_are_not(fleet: FleetTables) -> None:
    assert rows(fleet, "withholding", "node", "message_id", "evidence", "has_arrived") == {
        (node_id(2), message(SWALLOWED), "never_stored", False),
        (node_id(2), message(DROPPED), "dropped_early", False),
        (node_id(3), message(LOST), "no_journal_and_lost", False),
    }


def test_replicas_join_nodes_and_messages_by_the_hash_of_the_sealed_bytes(fleet: FleetTables) -> None:
    assert rows(fleet, "replicas", "message_id", "node", "state") == {
        (message(DELIVERED), node_id(1), "removed"),
        (message(HELD), node_id(1), "held"),
        (message(KEPT_TO_THE_END), node_id(1), "reaped"),
        (message(OLD_COPY), node_id(1), "held"),
        (message(DROPPED), node_id(2), "reaped"),
        (message(TWICE_STORED), node_id(1), "held"),
        (message(TWICE_STORED), node_id(2), "reaped"),
        (message(RESEALED), node_id(1), "removed"),
        (message(RESEALED), node_id(2), "held"),
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
        ("repair", GOOD, None, sealed(TWICE_STORED), None, NOON_MS + 30, "too_few_copies"),
        ("redrive", SENDER, message(DEAD), None, None, NOON_MS + DAY_MS, "daily_retry_due"),
        ("scoreboard", None, None, None, node_id(1), None, "measured"),
        ("scoreboard", None, None, None, node_id(2), None, "withheld"),
    }


def test_service_levels_count_by_hour_kind_and_priority_and_for_all(fleet: FleetTables) -> None:
    columns = ("message_kind", "priority", "is_total", "accepted", "delivered", "in_flight", "delivery_rate", "p50_ms")
    assert rows(fleet, "service_levels", *columns, "p99_ms", "duplicates", "repeated_releases") == {
        ("text", 1, False, 9, 2, 6, 2 / 3, 203.5, 206.93, 1, 0),
        ("media", 0, False, 1, 0, 0, 0.0, None, None, 0, 0),
        (None, None, True, 10, 2, 6, 0.5, 203.5, 206.93, 1, 0),
    }
    assert rows(fleet, "latency_histogram", "lower_bound_ms", "messages") == {(200, 2)}


def test_gaps_and_security_events_are_listed(fleet: FleetTables) -> None:
    assert rows(fleet, "gaps", "writer", "first_sequence", "last_sequence") == {(RECIPIENT, 4, 6)}
    assert rows(fleet, "security_events", "writer", "code", "message_id") == {
        (RECIPIENT, "collision", message(DELIVERED))
    }
