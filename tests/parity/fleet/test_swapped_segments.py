"""A signed segment that is swapped after its hash was compared: nothing of the other file counts (SPEC 13.1)."""

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from restante.crypto.identity import Identity
from restante.fleet.jobs import conservation_report, micro_batch
from restante.fleet.jobs.backfill import backfill
from restante.fleet.jobs.micro_batch import MOST_TRIES
from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.lake.enrolment_file import accept_key, read_enrolment
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.segments import HASH_DIFFERS, Segment, check_unchanged, find_segments, inspect_segments
from restante.fleet.lake.table_writer import open_base_table
from restante.fleet.stream.batches import last_catalog, open_batches
from restante.model.conservation_report import BadSegment
from restante.model.errors import RestanteError, StoreUnusable
from restante.model.journal import JournalKind
from restante.policy.settings import Settings
from support.fleet.journal_files import Journal, message, records, write_segment, writer
from support.fleet.signed_segments import KEY, ship_signed
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
OPERATOR = Identity(b"o" * 32)
ONCE = StreamOptions(once=True, buckets=1, is_published=False, operator_key=bytes(OPERATOR.address))


def journal_with(code: str) -> Journal:
    journal = Journal(writer(1))
    for each in range(4):
        journal.write(JournalKind.ACCEPTED, message(each), NOON_MS + each)
    journal.write(JournalKind.DEAD_LETTERED, message(0), NOON_MS + 10, code=code)
    return journal


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(str(tmp_path / "lake"))
    made.local_segments.mkdir(parents=True)
    accept_key(made.root, KEY.public.hex(), OPERATOR)
    ship_signed(made.local_segments, journal_with("E006").rows)
    return made


def found_in(lake: Lake) -> tuple[list[Segment], list[BadSegment]]:
    return find_segments(lake.local_segments, enrolment=read_enrolment(lake.root, bytes(OPERATOR.address)))


def swap(lake: Lake, tmp_path: Path) -> None:
    """Put rows of the same size in place of the signed ones, and the file's times back."""
    [path] = lake.local_segments.glob("*.parquet")
    seen = path.stat()
    path.write_bytes(write_segment(tmp_path / "forged.parquet", records(journal_with("E001").rows)).read_bytes())
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert path.stat().st_size == seen.st_size


@clause("13.1")
def test_a_signed_file_that_changes_for_a_moment_only_is_noticed(lake: Lake, tmp_path: Path) -> None:
    segments, _ = found_in(lake)
    check_unchanged(None, segments)
    [path] = lake.local_segments.glob("*.parquet")
    shutil.copy2(path, tmp_path / "true.parquet")
    swap(lake, tmp_path)
    shutil.copy2(tmp_path / "true.parquet", path)
    assert found_in(lake)[1] == [], "it is the true one again"
    with pytest.raises(StoreUnusable, match="changed while it was read"):
        check_unchanged(None, segments)
    path.unlink()
    with pytest.raises(StoreUnusable):
        check_unchanged(None, segments)


@clause("13.1", "13.3")
def test_a_backfill_commits_nothing_of_a_segment_that_was_swapped(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    found = found_in(lake)
    swap(lake, tmp_path)
    with pytest.raises(StoreUnusable, match="changed while it was read"):
        backfill(spark, lake, Settings(), *found, is_published=False)
    assert not open_base_table(lake, "events").live()
    assert not [*Path(lake.table("events")).rglob("*.parquet")], "what was written is deleted"
    again = backfill(spark, lake, Settings(), *found_in(lake), is_published=False)
    assert [one.reason for one in again.bad_files] == [HASH_DIFFERS]


@clause("13.1", "13.2")
def test_a_batch_of_a_stream_commits_nothing_of_a_segment_that_was_swapped(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def then_swapped(*args: Any) -> tuple[list[Segment], list[BadSegment]]:
        found = inspect_segments(*args)
        swap(lake, tmp_path)
        return found

    monkeypatch.setattr(micro_batch, "inspect_segments", then_swapped)
    done = start_stream(spark, lake, Settings(), ONCE).await_end(threading.Event())
    assert (done.counts.events, [one.reason for one in done.bad_files]) == (0, [HASH_DIFFERS])


@clause("13.1", "13.2")
@pytest.mark.parametrize("changes", [MOST_TRIES - 1, MOST_TRIES])
def test_a_batch_is_repeated_when_a_signed_segment_was_shipped_again(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, *, changes: int
) -> None:
    """The same bytes under the same name, as after a writer was killed: a few times are normal."""
    [path] = lake.local_segments.glob("*.parquet")
    left = iter(range(changes))

    def then_shipped(*args: Any) -> tuple[list[Segment], list[BadSegment]]:
        found = inspect_segments(*args)
        if next(left, None) is not None:
            shutil.copyfile(path, path.with_name("_draft"))
            path.with_name("_draft").replace(path)
        return found

    monkeypatch.setattr(micro_batch, "inspect_segments", then_shipped)
    if changes < MOST_TRIES:
        done = start_stream(spark, lake, Settings(), ONCE).await_end(threading.Event())
        assert (done.counts.events, done.counts.duplicates, done.bad_files) == (5, 0, ())
        return
    with pytest.raises(RestanteError, match="changed while it was read"):
        start_stream(spark, lake, Settings(), ONCE).await_end(threading.Event())
    assert last_catalog(open_batches(lake)) is None


@clause("13.1", "13.4")
def test_a_report_says_nothing_about_a_segment_that_was_swapped(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    segments, _ = found_in(lake)
    swap(lake, tmp_path)
    with (
        pytest.raises(StoreUnusable, match="changed while it was read"),
        conservation_report.prescanned(spark, segments) as (rows, _),
    ):
        rows.count()
