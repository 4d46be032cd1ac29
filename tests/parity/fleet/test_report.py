"""Reports on directories as they come: whole, shipped twice, with losses, with broken files."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.conservation_report import make_report
from restante.fleet.lake.segments import find_segments
from restante.model.conservation_report import (
    BadSegment,
    ConservationReport,
    DayBalance,
    Inconsistency,
    Latency,
    MissingEvents,
    QuarantinedRows,
    UnaccountedMessage,
)
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.states import State
from support.fleet.journal_files import Journal, message, records, write_segment, writer
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000  # 2026-01-05 12:00 UTC
DAY_MS = 86_400_000
SENDER, RECIPIENT, RELAY = writer(1), writer(2), writer(3)
ENDS = {
    0: (JournalKind.SENT, JournalKind.DELIVERED, JournalKind.READ),
    1: (JournalKind.SENT, JournalKind.DELIVERED),
    2: (JournalKind.SENT,),
    3: (JournalKind.EXPIRED,),
    4: (JournalKind.EVICTED,),
    5: (
        JournalKind.DEAD_LETTERED,
        JournalKind.RECOVERED,
        JournalKind.ATTEMPTED,
        JournalKind.SENT,
        JournalKind.DELIVERED,
    ),
    6: (JournalKind.RETRIED, JournalKind.ATTEMPTED, JournalKind.DEAD_LETTERED, JournalKind.DISCARDED),
    7: (),
}
"""What follows the first attempt of each message."""


def fleet() -> tuple[Journal, Journal, Journal]:
    """Eight messages; the last two are accepted a day later. Facts of one message are 100 ms apart."""
    sender, recipient, relay = Journal(SENDER), Journal(RECIPIENT), Journal(RELAY)
    for number, end in ENDS.items():
        at_ms = NOON_MS + (DAY_MS if number > 5 else 0)
        sender.write(
            JournalKind.ACCEPTED, message(number), at_ms, message_kind=Kind.TEXT, priority=Priority.NORMAL, ttl_s=86_400
        )
        for place, kind in enumerate((JournalKind.ATTEMPTED, *end), 1):
            sender.write(kind, message(number), at_ms + 100 * place)
        if JournalKind.SENT in end:
            relay.write(JournalKind.STORED, None, at_ms + 150, payload_hash=bytes([number]) * 32)
            recipient.write(JournalKind.ARRIVED, message(number), at_ms + 240)
            recipient.write(JournalKind.RELEASED, message(number), at_ms + 250)
    return sender, recipient, relay


def report_on(spark: SparkSession, directory: Path) -> ConservationReport:
    return make_report(spark, *find_segments(directory))


@pytest.fixture(scope="module")
def messy(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ConservationReport:
    """Nothing lost, though one segment came twice, one copy is cut short, one is damaged, and some rows are strange."""
    directory = tmp_path_factory.mktemp("messy")
    sender, recipient, relay = (records(journal.rows) for journal in fleet())
    first = write_segment(directory / "sender-1.parquet", sender[:10])
    (directory / "sender-1-again.parquet").write_bytes(first.read_bytes())
    (directory / "sender-1-cut.parquet").write_bytes(first.read_bytes()[:-20])
    write_segment(directory / "sender-2.parquet", sender[10:])
    write_segment(directory / "recipient.parquet", recipient)
    strange = [{**relay[0], "kind": "sneezed"}, {**relay[0], "size_bytes": -1}, {**relay[1], "kind": "sneezed"}]
    write_segment(directory / "relay.parquet", [*relay, *strange])
    damaged = write_segment(directory / "relay-damaged.parquet", relay, write_page_checksum=True)
    raw = bytearray(damaged.read_bytes())
    raw[40] ^= 1
    damaged.write_bytes(raw)
    before = persistent(spark)
    report = report_on(spark, directory)
    assert persistent(spark) <= before  # other tests' tables may still wait for Java's garbage collector
    return report


def persistent(spark: SparkSession) -> set[str]:
    return set(str(spark.sparkContext._jsc.sc().getPersistentRDDs().keySet().mkString(" ")).split())


def test_rows_in_are_events_and_duplicates_and_quarantined_rows(messy: ConservationReport) -> None:
    # 33 facts of the sender, 8 of the recipient, 4 of the relay; 10 came twice; 3 rows are strange.
    assert (messy.segments, messy.input_rows, messy.events, messy.duplicates) == (7, 58, 45, 10)
    assert messy.quarantined_rows == 3


def test_refused_rows_are_listed_by_file_and_reason(messy: ConservationReport) -> None:
    assert messy.quarantine == (
        QuarantinedRows(source_file="relay.parquet", reason="kind: must be a known word", rows=2),
        QuarantinedRows(source_file="relay.parquet", reason="size_bytes: must be in 0..4294967295", rows=1),
    )


def test_a_cut_and_a_damaged_file_are_named_and_the_job_goes_on(messy: ConservationReport) -> None:
    assert messy.bad_files == (
        BadSegment(name="relay-damaged.parquet", reason="damaged: 0 of 4 rows could be read"),
        BadSegment(name="sender-1-cut.parquet", reason="not a whole Parquet file"),
    )


@clause("1.4", "13.4")
def test_the_books_balance_day_by_day_though_a_segment_came_twice(messy: ConservationReport) -> None:
    assert messy.days == (
        DayBalance(day=date(2026, 1, 5), accepted=6, delivered=3, expired=1, evicted=1, in_flight=1),
        DayBalance(day=date(2026, 1, 6), accepted=2, dead=1, in_flight=1),
    )
    assert messy.unaccounted == ()
    assert messy.missing_events == ()
    assert messy.balanced


def test_the_latency_table_has_both_spans(messy: ConservationReport) -> None:
    # Delivered after 300, 300 and 600 ms; released after 250 ms each, that of the message still in flight too.
    assert [(row.span, row.message_kind, row.messages, row.p50_ms, row.max_ms) for row in messy.latency] == [
        ("accepted_to_delivered", Kind.TEXT, 3, 300.0, 600),
        ("accepted_to_delivered", None, 3, 300.0, 600),
        ("accepted_to_released", Kind.TEXT, 4, 250.0, 250),
        ("accepted_to_released", None, 4, 250.0, 250),
    ]
    assert isinstance(messy.latency[0], Latency)


@pytest.fixture(scope="module")
def lossy(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ConservationReport:
    """A few facts lost and two that cannot be; and a writer of whose facts every second one is lost."""
    directory = tmp_path_factory.mktemp("lossy")
    sender, recipient, relay = fleet()
    sender.write(JournalKind.ATTEMPTED, message(0), NOON_MS + 900)
    sender.write(JournalKind.DELIVERED, None, NOON_MS + 901)
    accepted_of_message_1 = sender.rows[5]
    assert (accepted_of_message_1.kind, accepted_of_message_1.message_id) == (JournalKind.ACCEPTED, message(1))
    kept = [row for row in sender.rows if row is not accepted_of_message_1]
    write_segment(directory / "sender.parquet", records(kept))
    write_segment(directory / "recipient.parquet", records(recipient.rows[3:]))
    # A row that contradicts its copy leaves a hole, too: neither is believed.
    write_segment(directory / "relay.parquet", records([*relay.rows, replace(relay.rows[1], at_ms=1)]))
    careless = Journal(writer(4))
    for _ in range(2_002):
        careless.write(JournalKind.STORED, None, NOON_MS)
    write_segment(directory / "careless.parquet", records(careless.rows[1::2]))
    return report_on(spark, directory)


@clause("13.4")
def test_unaccounted_messages_are_listed_by_id_with_the_last_fact(lossy: ConservationReport) -> None:
    assert lossy.unaccounted == (
        UnaccountedMessage(
            message_id=message(0),
            inconsistency=Inconsistency.CHANGED_AFTER_END,
            state=State.SENDING,
            last_event=JournalKind.ATTEMPTED,
            last_event_at_ms=NOON_MS + 900,
        ),
        UnaccountedMessage(
            message_id=message(1),
            inconsistency=Inconsistency.NEVER_ACCEPTED,
            state=State.DELIVERED,
            last_event=JournalKind.DELIVERED,
            last_event_at_ms=NOON_MS + 300,
        ),
        UnaccountedMessage(
            message_id=None,
            inconsistency=Inconsistency.MISSING_MESSAGE_ID,
            state=State.DELIVERED,
            last_event=JournalKind.DELIVERED,
            last_event_at_ms=NOON_MS + 901,
        ),
    )


@clause("13.4")
def test_missing_facts_are_listed_by_writer_and_number(lossy: ConservationReport) -> None:
    assert lossy.missing_events[:3] == (
        MissingEvents(
            writer=SENDER,
            missing_from=6,
            missing_to=6,
            last_event=JournalKind.READ,
            last_event_at_ms=NOON_MS + 400,
            last_message_id=message(0),
        ),
        MissingEvents(
            writer=RECIPIENT,
            missing_from=1,
            missing_to=3,
            last_event=None,
            last_event_at_ms=None,
            last_message_id=None,
        ),
        MissingEvents(
            writer=RELAY,
            missing_from=2,
            missing_to=2,
            last_event=JournalKind.STORED,
            last_event_at_ms=NOON_MS + 150,
            last_message_id=None,
        ),
    )


def test_a_long_list_ends_and_its_count_goes_on(lossy: ConservationReport) -> None:
    assert len(lossy.missing_events) == 1_000
    assert lossy.missing_event_count == 3 + 1_001


@clause("1.4", "13.4")
def test_the_day_of_a_loss_does_not_balance_and_the_other_does(lossy: ConservationReport) -> None:
    assert lossy.days == (
        DayBalance(
            day=date(2026, 1, 5),
            accepted=5,
            delivered=1,
            expired=1,
            evicted=1,
            in_flight=1,
            unaccounted=3,
            is_balanced=False,
        ),
        DayBalance(day=date(2026, 1, 6), accepted=2, dead=1, in_flight=1),
    )
    assert not lossy.balanced


def test_a_directory_of_broken_files_gives_a_report_without_facts(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    report = report_on(spark, tmp_path)
    assert report.bad_files == (BadSegment(name="a.parquet", reason="not a whole Parquet file"),)
    assert (report.input_rows, report.days, report.latency) == (0, (), ())
