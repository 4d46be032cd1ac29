"""Old days are deleted from a bucket, and later events get the verdicts that they would get if nothing were deleted."""

import tempfile
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.fleet.stream.bucket_files import EPOCH
from restante.fleet.stream.bucket_step import Counts
from restante.fleet.stream.retention import TOO_LATE
from restante.fleet.transforms.validate import CONFLICT
from restante.model.ids import SessionTag
from restante.model.journal import JournalKind
from support.fleet.arrival_traces import (
    DAY_MS,
    START_MS,
    TRACES,
    TraceFact,
)
from support.fleet.journal_files import Journal, records, writer
from support.fleet.stream_buckets import FedBucket, Record, told_at_once
from support.fleet.trace_journals import write_fact
from support.spec.clauses import clause

pytestmark = pytest.mark.unit

GAP_MS = 4 * DAY_MS
"""More than the clocks of a trace are set back."""
PERIODS = 3


def day_of(at_ms: int) -> str:
    return str(EPOCH.fromordinal(EPOCH.toordinal() + at_ms // DAY_MS))


def periods_of(trace: Sequence[TraceFact], cuts: Sequence[int]) -> tuple[list[list[Record]], list[str]]:
    """The rows of one recipient in three periods, days apart, and the first days of the second and the third.

    `cuts` are hundredths of the trace.
    """
    journal, now_ms = Journal(writer(1)), START_MS
    rows: list[list[Record]] = []
    days: list[str] = []
    second, third = (len(trace) * cut // 100 for cut in cuts)
    for part in (trace[:second], trace[second:third], trace[third:]):
        first = len(journal.rows)
        moments = list(accumulate((fact.after_ms for fact in part), initial=now_ms))[1:]
        for fact, at_ms in zip(part, moments, strict=True):
            write_fact(journal, fact, at_ms, SessionTag(bytes([1]) * 8 + bytes([fact.session]) * 8))
        rows.append([dict(row) for row in records(journal.rows[first:])])
        latest_ms = max([now_ms, *moments])
        days.append(day_of(latest_ms + DAY_MS))
        now_ms = latest_ms + GAP_MS
    return rows, days[:-1]


def named(rows: Sequence[Record], file: str) -> list[Record]:
    return [{**row, "source_file": file} for row in rows]


@clause("13.3", "13.7")
@settings(max_examples=60)
@given(
    TRACES,
    st.lists(st.integers(0, 100), min_size=2, max_size=2).map(sorted),
    st.lists(st.integers(0, PERIODS - 1), min_size=7, max_size=41),
    st.lists(st.integers(0, 40), max_size=5),
)
def test_verdicts_after_retention_are_those_of_all_events(
    trace: list[TraceFact], cuts: list[int], step_of: list[int], again: list[int]
) -> None:
    """Each row comes in one of three steps, some of them again at the end; days are deleted after the first two.

    A row of a deleted day that comes for the first time is late; a copy is a duplicate, also one of a late row.
    """
    periods, days = periods_of(trace, cuts)
    rows = [(period, row) for period, part in enumerate(periods) for row in part]
    steps = [
        [(period, row) for place, (period, row) in enumerate(rows) if step_of[place % len(step_of)] == step]
        for step in range(PERIODS)
    ]
    with tempfile.TemporaryDirectory() as root:
        bucket = FedBucket(Path(root))
        for step, part in enumerate(steps):
            bucket.feed(named([row for _, row in part], f"step-{step}"))
            if step < len(days):
                bucket.retain(days[step])
        repeated = [rows[place] for place in again if place < len(rows)]
        bucket.feed(named([row for _, row in repeated], "again"))
        admitted = [row for step, part in enumerate(steps) for period, row in part if period >= step]
        late = [row for step, part in enumerate(steps) for period, row in part if period < step]
        late_ids = {row["event_id"] for row in late}
        last = [row for row in admitted if row in periods[-1]]
        assert {row["event_id"] for row in bucket.table("events")} == {row["event_id"] for row in last}
        expected = told_at_once(named(admitted, "all"))
        assert bucket.told() == {event: expected[event] for event in bucket.told()}
        assert bucket.told().keys() == expected.keys() & {row["event_id"] for row in last}
        assert [row["reason"] for row in bucket.table("quarantine")] == [TOO_LATE] * len(late)
        assert {row["event_id"] for row in bucket.table("quarantine")} == late_ids
        assert len(bucket.table("repeats")) == len(repeated)
        assert bucket.counts.events == len(admitted)
        assert bucket.counts.duplicates == len(repeated)


SIGNED = frozenset({"signed", "signed-too"})
RECENT_MS = START_MS + 9 * DAY_MS


def security_event(at_ms: int, file: str) -> Record:
    """The first event of a writer; `file` tells whether it is a signed one."""
    journal = Journal(writer(1))
    journal.write(JournalKind.SECURITY, None, at_ms, code="collision")
    return named([dict(row) for row in records(journal.rows)], file)[0]


@clause("13.1", "13.3")
@pytest.mark.parametrize("copies", [1, 2])
def test_a_signed_row_of_a_deleted_day_ends_an_unsigned_event_and_is_late(tmp_path: Path, copies: int) -> None:
    """It would be an event on a day whose files are deleted."""
    bucket = FedBucket(tmp_path, signed=SIGNED)
    bucket.feed([security_event(RECENT_MS, "unsigned")])
    bucket.retain(day_of(START_MS + DAY_MS))
    step = bucket.feed([security_event(START_MS, "signed"), security_event(START_MS, "unsigned")][:copies])
    assert not bucket.bucket.events
    assert not step.came
    reasons = sorted((row["source_file"], row["reason"]) for row in bucket.table("quarantine"))
    assert reasons == [("signed", TOO_LATE), ("unsigned", CONFLICT)]
    assert [row["source_file"] for row in bucket.table("repeats")] == ["unsigned"][: copies - 1]
    assert bucket.counts == Counts(events=0, duplicates=copies - 1, quarantined=2, late=1, retracted=1)
    assert len(bucket.rows(step.went)) == 2  # so that what followed from the event is built again


@clause("13.1", "13.3")
def test_an_unsigned_row_of_a_deleted_day_does_not_touch_a_signed_event(tmp_path: Path) -> None:
    bucket = FedBucket(tmp_path, signed=SIGNED)
    bucket.feed([security_event(RECENT_MS, "signed")])
    bucket.retain(day_of(START_MS + DAY_MS))
    bucket.feed([security_event(START_MS, "unsigned")])
    assert [row["source_file"] for row in bucket.table("events")] == ["signed"]
    assert [(row["source_file"], row["reason"]) for row in bucket.table("quarantine")] == [("unsigned", CONFLICT)]


@clause("13.1", "13.3")
def test_signed_rows_that_contradict_each_other_end_an_event_whatever_their_day(tmp_path: Path) -> None:
    bucket = FedBucket(tmp_path, signed=SIGNED)
    bucket.feed([security_event(RECENT_MS, "signed")])
    bucket.retain(day_of(START_MS + DAY_MS))
    bucket.feed([security_event(START_MS, "signed")])
    assert not bucket.bucket.events
    assert {row["reason"] for row in bucket.table("quarantine")} == {CONFLICT}


ORDERS = ["old new days", "new old days", "both days", "old days new", "new days old", "days old new", "days new old"]


@clause("13.1", "13.3")
@pytest.mark.parametrize("order", [*ORDERS, "days both"])
@pytest.mark.parametrize(
    ("old", "new", "stays"),
    [("signed", "signed-too", 0), ("signed", "unsigned", 0), ("unsigned", "signed", 1), ("unsigned", "other", 0)],
)
def test_which_of_two_rows_is_an_event_does_not_depend_on_when_days_were_deleted(
    tmp_path: Path, order: str, old: str, new: str, stays: int
) -> None:
    """Two rows with one number, one of a day that is deleted: a signed one is an event unless a signed one differs."""
    bucket = FedBucket(tmp_path, signed=SIGNED)
    rows = {"old": [security_event(START_MS, old)], "new": [security_event(RECENT_MS, new)]}
    rows["both"] = rows["old"] + rows["new"]
    for step in order.split():
        if step == "days":
            bucket.retain(day_of(START_MS + DAY_MS))
        else:
            bucket.feed(rows[step])
    assert [row["source_file"] for row in bucket.table("events")] == [new] * stays
