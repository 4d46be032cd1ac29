"""Whom the fleet asks to fetch a copy again: the nodes that lost theirs, while others hold the message."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from restante.fleet.tables.definitions import FleetTables
from restante.fleet.transforms import actions
from restante.model.ids import PayloadHash, WriterId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from support.fleet.dataframes import tables_of
from support.fleet.journal_files import Journal, message, node_id, sealed, writer
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
DAY_MS = 86_400_000
NOW_MS = NOON_MS + DAY_MS
STORED_AT_MS, CONFIRMED_AT_MS, REAPED_AT_MS = NOON_MS + 30, NOON_MS + 40, NOON_MS + 3_600_000
(
    REAPED_EARLY,
    NEVER_JOURNALED,
    LOST_BY_TWO,
    REAPED_IN_TIME,
    STORED_AGAIN,
    ENOUGH_COPIES,
    ARRIVED,
    NO_COPY_LEFT,
    REAPED_BY_UNKNOWN,
) = range(1, 10)
FIRST, SECOND, THIRD, FOURTH = (writer(number) for number in range(1, 5))
BEFORE_ITS_DISK_FAILED, UNKNOWN, SENDER, RECIPIENT = writer(5), writer(6), writer(7), writer(8)


def store(node: Journal, *numbers: int, ttl_s: int = 30 * 86_400, at_ms: int = STORED_AT_MS) -> None:
    for number in numbers:
        node.write(JournalKind.STORED, None, at_ms, payload_hash=sealed(number), size_bytes=512, ttl_s=ttl_s)


def reap(node: Journal, *numbers: int) -> None:
    for number in numbers:
        node.write(JournalKind.REAPED, None, REAPED_AT_MS, payload_hash=sealed(number))


def send(sender: Journal, number: int, *nodes: int) -> None:
    details = {"message_kind": Kind.TEXT, "priority": Priority.NORMAL, "ttl_s": 30 * 86_400, "size_bytes": 512}
    sender.write(JournalKind.ACCEPTED, message(number), NOON_MS, payload_hash=sealed(number), **details)
    sender.write(JournalKind.ATTEMPTED, message(number), NOON_MS + 10, attempt=1)
    for node in nodes:
        sender.write(JournalKind.DELIVERY_CONFIRMED, message(number), CONFIRMED_AT_MS, node=node_id(node))
    sender.write(JournalKind.SENT, message(number), CONFIRMED_AT_MS)


def journals() -> list[Journal]:
    """Four nodes, of which the second once had another file, one that journaled no start, a sender and a recipient."""
    first, second, third, fourth = (Journal(who) for who in (FIRST, SECOND, THIRD, FOURTH))
    earlier, unknown, sender, recipient = map(Journal, (BEFORE_ITS_DISK_FAILED, UNKNOWN, SENDER, RECIPIENT))
    earlier.write(JournalKind.NODE_STARTED, None, NOON_MS - DAY_MS, node=node_id(2))
    for number, node in enumerate((first, second, third, fourth), 1):
        node.write(JournalKind.NODE_STARTED, None, NOON_MS, node=node_id(number))
    for number in (REAPED_EARLY, NEVER_JOURNALED, REAPED_IN_TIME, STORED_AGAIN, ARRIVED, NO_COPY_LEFT):
        send(sender, number, 1, 2)
    send(sender, LOST_BY_TWO, 1, 2, 3)
    send(sender, ENOUGH_COPIES, 1, 2, 3, 4)
    send(sender, REAPED_BY_UNKNOWN, 1)
    store(first, REAPED_EARLY, NEVER_JOURNALED, LOST_BY_TWO, REAPED_IN_TIME, STORED_AGAIN, ENOUGH_COPIES, ARRIVED)
    store(first, REAPED_BY_UNKNOWN)
    store(second, REAPED_EARLY, LOST_BY_TWO, STORED_AGAIN, ENOUGH_COPIES, ARRIVED, NO_COPY_LEFT)
    store(second, REAPED_IN_TIME, ttl_s=600)
    store(third, LOST_BY_TWO, ENOUGH_COPIES)
    store(fourth, ENOUGH_COPIES)
    store(unknown, REAPED_BY_UNKNOWN)
    reap(second, REAPED_EARLY, REAPED_IN_TIME, STORED_AGAIN, ENOUGH_COPIES, ARRIVED, NO_COPY_LEFT, LOST_BY_TWO)
    reap(third, LOST_BY_TWO)
    reap(unknown, REAPED_BY_UNKNOWN)
    store(second, STORED_AGAIN, at_ms=REAPED_AT_MS + 1_000)
    recipient.write(JournalKind.ARRIVED, message(ARRIVED), NOON_MS + 90, code="new", payload_hash=sealed(ARRIVED))
    return [first, second, third, fourth, earlier, unknown, sender, recipient]


@pytest.fixture(scope="module")
def fleet(spark: SparkSession) -> Iterator[FleetTables]:
    with tables_of(spark, *journals(), now_ms=NOW_MS) as tables:
        yield tables


def proposed(fleet: FleetTables) -> list[tuple[WriterId, PayloadHash, int]]:
    found = fleet["actions"].filter("action = 'repair'").select("target", "payload_hash", "event_at_ms").collect()
    return sorted((WriterId(bytes(target)), PayloadHash(bytes(hashed)), at_ms) for target, hashed, at_ms in found)


@clause("13.6")
def test_the_nodes_that_lost_a_copy_fetch_it_while_another_holds_it(fleet: FleetTables) -> None:
    """Each by the journal that it writes now. Mail that expired, arrived, came back or has three copies is no case."""
    assert proposed(fleet) == sorted(
        [
            (SECOND, sealed(REAPED_EARLY), REAPED_AT_MS),
            (SECOND, sealed(NEVER_JOURNALED), CONFIRMED_AT_MS),
            (SECOND, sealed(LOST_BY_TWO), REAPED_AT_MS),
            (THIRD, sealed(LOST_BY_TWO), REAPED_AT_MS),
            (UNKNOWN, sealed(REAPED_BY_UNKNOWN), REAPED_AT_MS),
        ]
    )


@clause("13.6")
def test_where_no_copy_is_left_the_sender_stores_the_message_again(fleet: FleetTables) -> None:
    again = fleet["actions"].filter("action = 'retransmit'").select("target", "message_id").collect()
    assert [(bytes(target), bytes(lost)) for target, lost in again] == [(SENDER, message(NO_COPY_LEFT))]


@clause("13.6")
@pytest.mark.parametrize(("most", "kept"), [(1, 3), (2, 4), (3, 5)])
def test_a_node_gets_so_many_proposals_at_most(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int, kept: int
) -> None:
    """The second node lost three copies; its oldest losses come first. Others lost one each."""
    monkeypatch.setattr(actions, "REPAIRS_PER_TARGET", most)
    with tables_of(spark, *journals(), now_ms=NOW_MS) as tables:
        found = proposed(tables)
    assert len(found) == kept
    assert (SECOND, sealed(NEVER_JOURNALED), CONFIRMED_AT_MS) in found
