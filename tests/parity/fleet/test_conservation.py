"""The books by day, and the facts that are missing from a journal."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from restante.fleet.tables.journal_schema import JOURNAL
from restante.fleet.transforms.conservation import conservation, missing_events, unaccounted
from restante.fleet.transforms.messages import message_lifecycles, messages
from restante.fleet.transforms.writer_activity import writer_hours
from restante.model.ids import event_number
from restante.model.journal import JournalEvent, JournalKind
from support.fleet.journal_files import Journal, message, records, writer
from support.spec.clauses import clause

MIDNIGHT_MS = 1_767_571_200_000  # 2026-01-05 00:00 UTC
TABLE = "accepted_at_ms long, state string, first_event_at_ms long, inconsistency string, day date, "
TABLE += "arrivals long, confirmed array<struct<node:binary>>"
STORY = (
    JournalKind.ACCEPTED,
    JournalKind.ATTEMPTED,
    JournalKind.RETRIED,
    JournalKind.ATTEMPTED,
    JournalKind.SENT,
    JournalKind.DELIVERED,
    JournalKind.READ,
)


@pytest.fixture
def far_east(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose clocks are 14 hours ahead: days must not follow it."""
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before == "UTC"
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@clause("13.4")
def test_each_day_says_what_became_of_the_messages_accepted_on_it(far_east: SparkSession) -> None:
    states = ["pending", "sending", "sent", "delivered", "delivered", "expired", "evicted", "dead"]
    first_day: list[tuple[int | None, str, str | None]]
    first_day = [(MIDNIGHT_MS + place, state, None) for place, state in enumerate(states)]
    first_day.append((MIDNIGHT_MS + 86_399_999, "delivered", "changed_after_end"))
    day_before: list[tuple[int | None, str, str | None]]
    day_before = [(MIDNIGHT_MS - 1, "delivered", None), (None, "sent", "never_accepted")]
    rows = [
        (accepted_at_ms, state, accepted_at_ms or MIDNIGHT_MS - 2, inconsistency, day_of(accepted_at_ms), 0, [(b"n",)])
        for accepted_at_ms, state, inconsistency in first_day + day_before
    ]
    found = conservation(far_east.createDataFrame(rows, TABLE)).orderBy("day").collect()
    ends = ("delivered", "expired", "evicted", "dead")
    columns = ("day", "accepted", *ends, "in_flight", "unaccounted", "is_balanced", "stored_never_arrived")
    assert [tuple(row[name] for name in columns) for row in found] == [
        (date(2026, 1, 4), 1, 1, 0, 0, 0, 0, 1, False, 0),
        (date(2026, 1, 5), 9, 2, 1, 1, 1, 3, 1, True, 2),
    ]


def day_of(accepted_at_ms: int | None) -> date:
    return date(2026, 1, 5) if (accepted_at_ms or 0) >= MIDNIGHT_MS else date(2026, 1, 4)


def copies_of_a_story_with_one_loss_each() -> tuple[list[JournalEvent], list[JournalEvent]]:
    """The same story told by many writers, each of whom lost another fact of it; and the facts lost, in order."""
    kept, lost = [], []
    for place in range(len(STORY)):
        journal = Journal(writer(place))
        for moment, kind in enumerate(STORY):
            journal.write(kind, message(place), MIDNIGHT_MS + moment)
        lost.append(journal.rows.pop(place))
        kept.extend(journal.rows)
    return kept, lost


@clause("1.4", "13.4")
def test_a_lost_fact_is_missed_whichever_it_was(spark: SparkSession) -> None:
    kept, lost = copies_of_a_story_with_one_loss_each()
    facts = spark.createDataFrame([tuple(record.values()) for record in records(kept)], JOURNAL)
    holes = missing_events(facts, writer_hours(facts)).orderBy("writer").collect()
    # Of the last fact nobody knows that it was ever written.
    assert [(row["writer"], row["missing_from"], row["missing_to"]) for row in holes] == [
        (row.writer, Decimal(event_number(row.event_id)), Decimal(event_number(row.event_id))) for row in lost[:-1]
    ]
    assert [(row["last_event"], row["last_event_at_ms"], row["last_message_id"]) for row in holes] == [
        (None, None, None),
        ("accepted", MIDNIGHT_MS, message(1)),
        ("attempted", MIDNIGHT_MS + 1, message(2)),
        ("retried", MIDNIGHT_MS + 2, message(3)),
        ("attempted", MIDNIGHT_MS + 3, message(4)),
        ("sent", MIDNIGHT_MS + 4, message(5)),
    ]
    [named] = unaccounted(messages(message_lifecycles(facts))).collect()
    assert (named["message_id"], named["inconsistency"], named["last_event"]) == (message(0), "never_accepted", "read")


@clause("13.4")
def test_a_run_of_lost_facts_is_one_hole_up_to_the_largest_number(spark: SparkSession) -> None:
    rows = Journal(writer(7))
    for _ in range(4):
        rows.write(JournalKind.STORED, None, MIDNIGHT_MS)
    highest = {**records(rows.rows)[0], "event_id": writer(7)[:8] + b"\xff" * 8}
    kept = [*records(rows.rows[2:3]), highest]
    events = spark.createDataFrame([tuple(record.values()) for record in kept], JOURNAL)
    holes = missing_events(events, writer_hours(events)).collect()
    spans = sorted((int(row["missing_from"]), int(row["missing_to"])) for row in holes)
    assert spans == [(1, 2), (4, 18_446_744_073_709_551_614)]
