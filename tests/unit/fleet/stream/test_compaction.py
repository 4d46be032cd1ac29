"""However many batches brought the rows of a day, its files are as few as its rows allow once no more rows come."""

from math import log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.fleet.stream.bucket_files import FileRef
from restante.fleet.stream.compaction import FAN, MERGED_ROWS_AT_MOST, worth_merging
from restante.model.ids import SessionTag
from restante.model.journal import JournalKind
from support.fleet.arrival_traces import DAY_MS, START_MS
from support.fleet.journal_files import Journal, message, records, sealed, writer
from support.fleet.stream_buckets import FedBucket, Record
from support.spec.clauses import clause

pytestmark = pytest.mark.unit

BATCHES_PER_DAY = 3 * FAN


def arrivals(days: int, *, per_day: int) -> list[Record]:
    journal = Journal(writer(1))
    for number in range(days * per_day):
        at_ms = START_MS + DAY_MS * number // per_day
        journal.write(
            JournalKind.ARRIVED,
            message(number),
            at_ms,
            session_tag=SessionTag(bytes(15) + b"1"),
            sequence=number,
            payload_hash=sealed(number),
        )
    return [{**row, "source_file": "a"} for row in records(journal.rows)]


@clause("13.3")
def test_a_day_without_new_rows_has_one_file_whatever_the_number_of_batches(tmp_path: Path) -> None:
    bucket = FedBucket(tmp_path)
    rows = arrivals(4, per_day=BATCHES_PER_DAY)
    for row in rows:
        bucket.feed([row])
    for kind in ("events", "arrivals"):
        refs = bucket.bucket.refs(kind)
        closed = sorted({ref.day or "" for ref in refs})[:-1]
        assert [sum(ref.day == day for ref in refs) for day in closed] == [1] * len(closed)
        assert len(bucket.table(kind)) == len(rows)


@given(st.integers(0, 10**6), st.lists(st.integers(1, 5_000), max_size=300))
def test_rows_that_come_late_are_gathered_so_that_each_is_copied_seldom(there: int, late: list[int]) -> None:
    """The files of a closed day to which a batch brings some rows at a time."""
    files = [ref_of(there)] if there else []
    copied = 0
    for rows in late:
        files.append(ref_of(rows))
        group = worth_merging(files, rows_at_most=10**9)
        if group:
            copied += sum(ref.rows for ref in group)
            files = [ref for ref in files if ref not in group] + [ref_of(sum(ref.rows for ref in group))]
    total = sum(ref.rows for ref in files)
    assert total == there + sum(late)
    assert len(files) <= 2 + log2(1 + total) / log2(FAN)
    assert copied <= (FAN + 1) * sum(late) * (1 + log2(1 + total))


def test_no_more_rows_are_merged_than_a_task_may_hold() -> None:
    files = [ref_of(MERGED_ROWS_AT_MOST // 3) for _ in range(7)]
    assert len(worth_merging(files, rows_at_most=MERGED_ROWS_AT_MOST)) == 3
    assert worth_merging(files[:2], rows_at_most=MERGED_ROWS_AT_MOST // 2) == ()


NUMBERS = iter(range(10**9))


def ref_of(rows: int) -> FileRef:
    return FileRef(name=str(next(NUMBERS)), rows=rows, day="2026-01-01")
