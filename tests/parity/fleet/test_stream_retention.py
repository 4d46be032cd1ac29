"""Retention where a stream keeps the tables: old days go, and everything else is as if nothing had been deleted."""

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs import publication, retention, stream
from restante.fleet.jobs import publish as publish_job
from restante.fleet.jobs.fleet_report import make_fleet_report
from restante.fleet.jobs.micro_batch import MicroBatches
from restante.fleet.jobs.publish import published
from restante.fleet.jobs.report_input import look_at, source_of
from restante.fleet.jobs.retention import retain
from restante.fleet.jobs.stream import StreamOptions
from restante.fleet.kernels.arrivals_words import UNUSABLE
from restante.fleet.lake.delta import APP_ID, DeltaFiles
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.query import summaries
from restante.fleet.stream.batches import PLAN_APP, Batches
from restante.fleet.stream.bucket_files import Bucket, BucketWriter
from restante.fleet.stream.retention import TOO_LATE, without_days
from restante.fleet.stream.source import Planner
from restante.model.conservation_report import ConservationReport
from restante.model.errors import ConfigurationInvalid, OutOfRange, StoreUnusable
from restante.model.ids import event_number
from restante.model.journal import JournalKind
from restante.model.provenance import provenance_of
from restante.policy.dead_letters import DeadLetterRetention
from restante.policy.shipping import SHORTEST_RETENTION_DAYS
from support.fleet.dataframes import tables_of
from support.fleet.incremental_lakes import COMPARED, plain, update
from support.fleet.journal_files import Record, message, node_id, records, sealed, write_segment
from support.fleet.old_fleet import (
    EXPIRED,
    FIRST_DAY,
    LATE,
    OLD_DAY,
    READ_LATER,
    TODAY,
    fleet_with_past,
)
from support.fleet.old_lakes import (
    FEW_FILES,
    SETTINGS,
    catalog_of,
    check_deleted,
    is_late,
    is_old,
    make_old_lake,
    more_rows,
    retained,
    rows_by_day,
    rows_of,
    shipped_rows,
)
from support.fleet.troubled_fleet import NOW_MS
from support.spec.clauses import clause

OLD_NUMBERS = 15
"""Numbers that the sender used on old days; others used fewer."""


class Interrupted(Exception):
    """Stands for a kill: only what was committed is left."""


@pytest.fixture(scope="module")
def shipped() -> list[Record]:
    return shipped_rows()


@pytest.fixture(scope="module")
def ready(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ready")
    make_old_lake(spark, root)
    return root


@pytest.fixture
def lake(ready: Path, tmp_path: Path) -> Lake:
    shutil.copytree(ready, tmp_path / "lake")
    return Lake(str(tmp_path / "lake"))


def report_on_stream(spark: SparkSession, lake: Lake) -> ConservationReport:
    source = source_of(spark, look_at(lake.root))
    options: dict[str, Any] = {"now_ms": NOW_MS, "retention": DeadLetterRetention()}
    report = make_fleet_report(spark, source.segments, source.bad, rows=source.rows, tables=source.tables, **options)
    return report.conservation


def old_rows(lake: Lake, name: str) -> list[str]:
    """The rows of a table about old days; what is missing from the numbers of these days."""
    old = [row for row in rows_of(lake, name) if str(row.get("day", OLD_DAY)) < FIRST_DAY]
    return sorted(str(row) for row in old if row.get("missing_to", 0) < OLD_NUMBERS)


def deleted_events(shipped: list[Record]) -> int:
    return sum(is_old(row) and not is_late(row) for row in shipped)


def batches_of_tables(lake: Lake) -> list[dict[str, Any]]:
    return [asdict(one) for one in summaries(lake) if one.batch is not None]


def after_commit(name: str, app_id: str) -> Callable[[pytest.MonkeyPatch], None]:
    """End after this table is committed."""

    def interrupt_there(patch: pytest.MonkeyPatch) -> None:
        real = DeltaFiles.commit

        def commit(self: DeltaFiles, batch: int, *args: Any, app_id: str = APP_ID) -> None:
            real(self, batch, *args, app_id=app_id)
            if (self.name, app_id) == (name, wanted):
                raise Interrupted

        wanted = app_id
        patch.setattr(DeltaFiles, "commit", commit)

    return interrupt_there


def at_call(where: Any, name: str, calls: int = 1) -> Callable[[pytest.MonkeyPatch], None]:
    """End before a function is called so often."""

    def interrupt_there(patch: pytest.MonkeyPatch) -> None:
        real, left = getattr(where, name), iter(range(calls - 1))

        def called(*args: Any, **options: Any) -> Any:
            if next(left, None) is None:
                raise Interrupted
            return real(*args, **options)

        patch.setattr(where, name, called)

    return interrupt_there


POINTS = (
    after_commit("segments", PLAN_APP),
    at_call(Batches, "commit"),
    after_commit("batches", APP_ID),
    after_commit("events", APP_ID),
    after_commit("segments", APP_ID),
    at_call(retention, "delete_tree", 2),
    at_call(DeltaFiles, "replace", 4),  # the tables that are derived
    at_call(publication, "keep_published"),
)


@clause("13.2", "13.3", "13.4")
def test_tables_after_retention_are_those_of_all_events_that_were_admitted(
    spark: SparkSession, lake: Lake, shipped: list[Record]
) -> None:
    """After it come copies of deleted events, a late event of a deleted day, and later events of the same sessions."""
    old = [row for row in shipped if is_old(row)]
    before = rows_by_day(lake, "events")
    assert retained(lake)["events"] == sum(count for day, count in before.items() if day < FIRST_DAY) == len(old) - 1
    check_deleted(lake)
    assert published(spark, lake, batch=2) is not None
    write_segment(lake.local_segments / "again.parquet", old)
    write_segment(lake.local_segments / "rest.parquet", [row for row in shipped if not is_old(row)])
    assert update(spark, lake) == 3
    check_deleted(lake)
    counts = catalog_of(lake).counts
    assert (counts.events, counts.quarantined) == (len(shipped) - 1, 1)
    assert counts.late > 1  # that of a deleted day, and events of the recipient between others
    quarantined = [row for row in rows_of(lake, "quarantine") if row["reason"] != UNUSABLE]
    refused = [(event_number(row["event_id"]), row["reason"]) for row in quarantined]
    assert refused == [(LATE, TOO_LATE)]
    journals = fleet_with_past()
    for journal in journals:
        journal.rows = [row for row in journal.rows if not is_late(records([row])[0])]
    tables = published(spark, lake, batch=3)
    assert tables is not None
    with tables_of(spark, *journals, now_ms=NOW_MS) as expected:
        for table in COMPARED:
            assert plain(tables[table.name]) == plain(expected[table.name]), table.name
    report = report_on_stream(spark, lake)
    assert all(day.is_balanced for day in report.days)
    assert str(report.days[0].day) == OLD_DAY
    assert (report.events, report.duplicates) == (counts.events, counts.duplicates)


@clause("13.3", "13.4")
def test_a_message_with_deleted_events_keeps_its_row_when_a_later_event_comes(
    spark: SparkSession, lake: Lake, shipped: list[Record]
) -> None:
    """Also the copies of a node that turns out to be another one, and what is missing among deleted events."""
    names = ("messages", "replicas", "missing_events", "conservation")
    before = {name: old_rows(lake, name) for name in names}
    retained(lake)
    later = []
    for journal in (fleet_with_past()[number] for number in (0, 2)):
        written = len(journal.rows)
        if journal.writer == fleet_with_past()[0].writer:
            journal.write(JournalKind.READ, message(READ_LATER), NOW_MS)
        else:
            journal.write(JournalKind.DELETED, None, NOW_MS, payload_hash=sealed(EXPIRED))
            journal.write(JournalKind.NODE_STARTED, None, NOW_MS, node=node_id(9))
        later += records(journal.rows[written:])
    write_segment(lake.local_segments / "later.parquet", later)
    assert update(spark, lake) == 3
    assert catalog_of(lake).counts.events == len(rows_of(lake, "events")) + deleted_events(shipped)
    assert {name: old_rows(lake, name) for name in names} == before
    report = report_on_stream(spark, lake)
    assert all(day.is_balanced and not day.unaccounted for day in report.days if str(day.day) < FIRST_DAY)


@clause("13.3", "13.9")
@pytest.mark.parametrize("point", range(8))
def test_a_retention_that_is_killed_anywhere_is_finished_by_the_next(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, point: int
) -> None:
    kept = rows_by_day(lake, "events")
    with monkeypatch.context() as patch:
        POINTS[point](patch)
        with pytest.raises(Interrupted):
            retained(lake)
    retained(lake)
    check_deleted(lake)
    assert rows_by_day(lake, "events") == {day: count for day, count in kept.items() if day >= FIRST_DAY}
    assert catalog_of(lake).number == 2
    assert {row["batch"] for row in batches_of_tables(lake)} == {2}
    assert retained(lake) == {"events": 0, "arrivals": 0}
    assert catalog_of(lake).number == 2


@clause("13.3", "13.9")
@pytest.mark.parametrize("point", [0, *(pytest.param(point, marks=pytest.mark.soak) for point in range(1, 8))])
def test_a_stream_finishes_a_retention_that_was_killed_and_goes_on(
    spark: SparkSession, lake: Lake, shipped: list[Record], monkeypatch: pytest.MonkeyPatch, *, point: int
) -> None:
    """With the checkpoint of an earlier batch, and without any."""
    with monkeypatch.context() as patch:
        POINTS[point](patch)
        with pytest.raises(Interrupted):
            retained(lake)
    shutil.rmtree(Path(lake.stream_table("checkpoint")))
    write_segment(lake.local_segments / "rest.parquet", [row for row in shipped if not is_old(row)])
    assert update(spark, lake) == 3
    retained(lake)  # deletes what a kill left on the disk
    check_deleted(lake)
    assert catalog_of(lake).counts.events == len(shipped) - 1
    assert published(spark, lake, batch=3) is not None


@clause("13.3", "13.9")
def test_a_running_stream_takes_over_what_retention_committed(spark: SparkSession, lake: Lake) -> None:
    running, planner = MicroBatches(spark, lake, SETTINGS), Planner(lake)
    retained(lake)
    assert planner.planned() == 2
    assert running.run(2) is None
    assert running.batches.done == 2
    write_segment(lake.local_segments / "more.parquet", more_rows())
    assert planner.plan_next(None, **FEW_FILES) == 3
    done = running.run(3)
    assert done is not None
    assert (done.n, done.counts.events) == (3, 1)


@clause("13.3", "13.9")
def test_the_loser_of_a_race_for_a_batch_is_named_and_nothing_is_damaged(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream plans a batch while retention is about to, and the other way round."""
    planner = Planner(lake)
    write_segment(lake.local_segments / "more.parquet", more_rows())
    plan = Batches.plan_retention

    def planned_too_late(self: Batches, first_day: str) -> int:
        planner.plan_next(None, **FEW_FILES)
        return plan(self, first_day)

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "plan_retention", planned_too_late)
        with pytest.raises(ConfigurationInvalid, match=r"batch 2 of the stream is planned.* repeat the command"):
            retained(lake)
    with pytest.raises(ConfigurationInvalid, match=r"batch 2 of the stream is planned and not done.*stream --once"):
        retained(lake)
    assert MicroBatches(spark, lake, SETTINGS).run(2) is not None
    with pytest.raises(ConfigurationInvalid, match=r"derived tables are not of batch 2.*stream --once"):
        retained(lake)
    publication.keep_tables(lake, batch=2)
    late = Planner(lake)
    retained(lake)
    write_segment(lake.local_segments / "again.parquet", more_rows())
    assert late.plan_next(None, **FEW_FILES) == 3  # that of retention; its own segments are for the next one
    assert late.plan_next(None, **FEW_FILES) == 4
    check_deleted(lake)


@clause("13.3")
def test_a_stream_keeps_at_least_what_messages_in_flight_need(lake: Lake) -> None:
    assert SHORTEST_RETENTION_DAYS == 120
    for days in (1, SHORTEST_RETENTION_DAYS - 1, 40_000):
        with pytest.raises(OutOfRange, match=r"120\.\.36500 days"):
            retain(lake, SETTINGS, days=days, today=TODAY)
    assert catalog_of(lake).retained_from is None
    assert retain(lake, SETTINGS, days=200, today=TODAY)[0].rows_deleted == 0
    assert catalog_of(lake).number == 1


@clause("13.3")
def test_a_report_that_would_need_deleted_events_is_refused(spark: SparkSession, lake: Lake) -> None:
    retained(lake)
    write_segment(lake.local_segments / "more.parquet", more_rows())
    assert update(spark, lake, is_published=False) == 3
    with pytest.raises(StoreUnusable, match="stream --once"):
        source_of(spark, look_at(lake.root))


@clause("13.3")
def test_tables_are_not_built_from_what_retention_left(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changed since the last publication is not known any more: rows of deleted days would be lost."""
    retained(lake)
    before = rows_of(lake, "messages")
    monkeypatch.setattr(publish_job, "find_change", lambda *_args, **_options: None)
    with pytest.raises(StoreUnusable, match="stream --reset"):
        publish_job.publish(
            spark, lake, now_ms=NOW_MS, retention=DeadLetterRetention(), provenance=provenance_of(()), batch=2
        )
    assert rows_of(lake, "messages") == before


@pytest.mark.soak
@clause("13.3")
def test_after_retention_a_stream_that_reads_much_publishes_in_between(
    spark: SparkSession, lake: Lake, shipped: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    retained(lake)
    rows = [row for row in shipped if not is_old(row)]
    for number in range(3):
        write_segment(lake.local_segments / f"more-{number}.parquet", rows[number::3])
    monkeypatch.setattr(stream, "MOST_ROWS", len(rows) // 2)
    seen: list[int] = []
    options = StreamOptions(once=True, buckets=2, files_per_batch=1)
    running = stream.start_stream(spark, lake, SETTINGS, options, on_publish=lambda n, _took_s: seen.append(n))
    running.await_end()
    assert seen == [3, 4, 5]
    monkeypatch.setattr(stream, "MOST_ROWS", 10 * len(rows))
    write_segment(lake.local_segments / "last.parquet", more_rows())
    write_segment(lake.local_segments / "later.parquet", more_rows())
    running = stream.start_stream(spark, lake, SETTINGS, options, on_publish=lambda n, _took_s: seen.append(n))
    running.await_end()
    assert seen == [3, 4, 5, 7]


@clause("13.3")
def test_retention_leaves_nothing_in_the_temporary_directory(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name could be guessed there, and another user could have made it first."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    names: list[str] = []

    def noted(writer: BucketWriter, *args: Any, **options: Any) -> Bucket:
        names.extend(path.name for path in scratch.iterdir())
        return without_days(writer, *args, **options)

    monkeypatch.setattr(retention, "without_days", noted)
    retained(lake)
    assert not [*scratch.iterdir()]
    assert names
    assert not [name for name in names if not name.startswith("restante-retention-")]
