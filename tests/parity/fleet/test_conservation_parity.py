"""The conservation table of a backfill and of a stream equals what the senders' outboxes did."""

import threading
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from restante.core.outbox_events import (
    CapacityExceeded,
    Leased,
    ReceiptAcked,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.fleet.jobs.backfill import backfill
from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.reading import read_live
from restante.fleet.lake.segments import find_segments
from restante.fleet.transforms.conservation import conservation, missing_events, unaccounted
from restante.fleet.transforms.messages import message_lifecycles, messages
from restante.fleet.transforms.writer_activity import writer_hours
from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.model.states import IN_FLIGHT, State
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from support.fleet.journal_files import Journal, Record, message, records, write_segment, writer
from support.outbox.traces import START_MS, STEPS, Step, after, entry
from support.spec.clauses import clause

SETTINGS = Settings()
DAY_MS = 86_400_000
PARTS = 3
LEASED: Step = (Leased(owner="a", until_ms=START_MS + 10**9), 0)
EVERY_STATE: list[list[Step]] = [
    [],
    [LEASED],
    [LEASED, (TransmitSucceeded(), 0)],
    [LEASED, (TransmitSucceeded(), 0), (ReceiptAcked(), 0)],
    [LEASED, (TransmitFailed(owner="a", failure=Failure.TOO_LARGE), 0)],
    [(CapacityExceeded(), 0)],
    [(TimePassed(), 40 * DAY_MS)],
]
ENDS = ("delivered", "expired", "evicted", "dead", "in_flight")


class Senders:
    """Messages as the core's machine has them, each sender's facts in its journal."""

    def __init__(self) -> None:
        self.ended: dict[MessageId, tuple[date, State]] = {}
        self.journals: list[Journal] = []

    def send(self, lives: Iterable[list[Step]]) -> Journal:
        """One sender; of five messages each begins on a day of its own."""
        journal = Journal(writer(len(self.journals) + 1))
        for life in lives:
            began_ms = START_MS + len(self.ended) % 5 * DAY_MS
            now, now_ms = entry(message(len(self.ended)), began_ms), began_ms
            journal.write(JournalKind.ACCEPTED, now.message_id, now_ms, message_kind=now.kind, priority=now.priority)
            for event, delay_ms in life:
                now_ms += delay_ms
                now = after(now._replace(next_attempt_at_ms=now_ms), event, now_ms, journal)
            self.ended[now.message_id] = (datetime.fromtimestamp(began_ms / 1_000, UTC).date(), now.state)
        self.journals.append(journal)
        return journal

    def books(self) -> dict[date, dict[str, int]]:
        """By the machines' own states."""
        found: dict[date, Counter[str]] = {}
        for day, state in self.ended.values():
            name = "in_flight" if state in IN_FLIGHT else state.value
            found.setdefault(day, Counter())[name] += 1
        return {
            day: {"accepted": counts.total(), **{name: counts[name] for name in ENDS}} for day, counts in found.items()
        }


def told(facts: DataFrame) -> tuple[dict[date, dict[str, int]], dict[MessageId, State]]:
    """The books and the messages' states from a table of events; nothing may be in inconsistency or missing."""
    table = messages(message_lifecycles(facts)).persist()
    try:
        rows: list[dict[str, Any]] = [row.asDict() for row in conservation(table).collect()]
        assert all(row["is_balanced"] and not row["unaccounted"] for row in rows)
        assert unaccounted(table).isEmpty()
        assert missing_events(facts, writer_hours(facts)).isEmpty()
        states = {MessageId(bytes(row["message_id"])): State(row["state"]) for row in table.collect()}
    finally:
        table.unpersist()
    return {row["day"]: {name: row[name] for name in ("accepted", *ENDS)} for row in rows}, states


@clause("13.4", "13.7")
def test_books_and_messages_of_any_lives_are_those_of_the_core_from_a_backfill_and_from_the_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Facts of all examples go in together, in any parts and order, some twice."""
    senders = Senders()
    parts: list[list[list[Record]]] = []

    @settings(max_examples=15, database=None)
    @example(EVERY_STATE, [2, 1, 0, 1], [])
    @given(
        st.lists(STEPS, min_size=1, max_size=6),
        st.lists(st.integers(0, PARTS - 1), min_size=7, max_size=23),
        st.lists(st.integers(0, PARTS - 1), max_size=3),
    )
    def collect(lives: list[list[Step]], part_of: list[int], again: list[int]) -> None:
        facts = records(senders.send(lives).rows)
        split = [
            [fact for fact, part in zip(facts, cycle(part_of), strict=False) if part == one] for one in range(PARTS)
        ]
        for place, part in enumerate(again):
            split[part] += facts[place : place + 5]
        parts.append(split)

    collect()
    lake = Lake(str(tmp_path))
    lake.local_segments.mkdir()
    for part in range(PARTS):
        for number, split in enumerate(parts):
            write_segment(lake.local_segments / f"{number}-{part}.parquet", split[part])
        running = start_stream(spark, lake, SETTINGS, StreamOptions(once=True, buckets=2, is_published=False))
        assert running.await_end(threading.Event()).n == part + 1
    expected = (senders.books(), {message_id: state for message_id, (_, state) in senders.ended.items()})
    assert {state for _, state in senders.ended.values()} == set(State)
    assert told(read_live(spark, lake, "events")) == expected
    other = Lake(f"{tmp_path}-again")
    backfill(spark, other, SETTINGS, *find_segments(lake.local_segments), is_published=False)
    assert told(read_live(spark, other, "events")) == expected
