"""Retention and a running stream on one lake: whichever is overtaken at any step goes on with what the other did."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs import retention, stream
from restante.fleet.jobs.changes import last_published
from restante.fleet.jobs.micro_batch import MicroBatches
from restante.fleet.jobs.publication import keep_tables
from restante.fleet.jobs.publish import published
from restante.fleet.jobs.retention import delete_days
from restante.fleet.lake.delta import APP_ID, DeltaFiles
from restante.fleet.lake.layout import Lake
from restante.fleet.stream.batches import Batches
from restante.fleet.stream.bucket_step import Counts
from restante.fleet.stream.source import Planner
from support.fleet.incremental_lakes import update
from support.fleet.journal_files import write_segment
from support.fleet.old_fleet import FIRST_DAY
from support.fleet.old_lakes import (
    FEW_FILES,
    SETTINGS,
    catalog_of,
    check_deleted,
    days_on_disk,
    make_old_lake,
    more_rows,
    retained,
)
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak

Action = Callable[[], object]


@pytest.fixture(scope="module")
def ready(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ready")
    make_old_lake(spark, root)
    return root


@pytest.fixture
def lake(ready: Path, tmp_path: Path) -> Lake:
    shutil.copytree(ready, tmp_path / "lake")
    return Lake(str(tmp_path / "lake"))


def once_at(patch: pytest.MonkeyPatch, where: Any, name: str, other: Action, *, call: int = 1) -> list[int]:
    """Let the other side run before this call of a function, once. What is returned has an item when it ran."""
    real, calls, ran = getattr(where, name), iter(range(1, 1_000)), list[int]()

    def called(*args: Any, **options: Any) -> Any:
        if not ran and next(calls) == call:
            ran.append(call)
            other()
        return real(*args, **options)

    patch.setattr(where, name, called)
    return ran


def once_before_commit(patch: pytest.MonkeyPatch, table: str, other: Action) -> list[int]:
    """Let the other side run before a batch is committed to this table, when the checks of the handle are done."""
    real, ran = DeltaFiles._commit, list[int]()

    def commit(self: DeltaFiles, added: Any, removed: Any, transactions: Any) -> None:
        if not ran and self.name == table and transactions and transactions[0].app_id == APP_ID:
            ran.append(1)
            other()
        real(self, added, removed, transactions)

    patch.setattr(DeltaFiles, "_commit", commit)
    return ran


def check_published(spark: SparkSession, lake: Lake, n: int) -> None:
    """All derived tables are of batch `n`, and that is noted."""
    assert published(spark, lake, batch=n) is not None
    found = last_published(lake)
    assert found is not None
    assert found.n == n


def planned(lake: Lake) -> int:
    return Batches(lake, buckets=1).plan_retention(FIRST_DAY)


@clause("13.3", "13.9")
@pytest.mark.parametrize("bucket", [1, 2])
@pytest.mark.parametrize("is_stream_late", [True, False])
def test_who_reads_events_that_the_other_has_deleted_goes_on(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, *, bucket: int, is_stream_late: bool
) -> None:
    n = planned(lake)
    running, command = MicroBatches(spark, lake, SETTINGS), Batches(lake, buckets=1)
    sides: list[Action] = [lambda: running.run(n), lambda: delete_days(command, n, SETTINGS)]
    late, early = sides if is_stream_late else sides[::-1]
    ran = once_at(monkeypatch, retention, "without_days", early, call=bucket)
    late()
    assert ran
    assert running.batches.done == command.done == n
    check_deleted(lake)


@clause("13.3", "13.9")
@pytest.mark.parametrize("table", ["events", "session_bases", "segments"])
@pytest.mark.parametrize("is_retention", [True, False])
def test_a_batch_that_another_process_rolls_forward_is_done(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, *, table: str, is_retention: bool
) -> None:
    """A command that opens the tables applies the batch that the stream has just committed."""
    running = MicroBatches(spark, lake, SETTINGS)
    if is_retention:
        n = planned(lake)
    else:
        write_segment(lake.local_segments / "more.parquet", more_rows())
        n = Planner(lake).plan_next(None, **FEW_FILES)
    ran = once_before_commit(monkeypatch, table, lambda: Batches(lake, buckets=1))
    running.run(n)
    assert ran
    assert running.batches.done == n
    assert {each.last() for each in running.batches.tables.values()} == {n}


@clause("13.3", "13.9")
def test_a_plan_between_a_batch_and_its_segments_does_not_stop_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream plans its next batch when retention has committed its own, and not yet told the table of segments."""
    command, planner = Batches(lake, buckets=1), Planner(lake)
    n = planned(lake)
    write_segment(lake.local_segments / "more.parquet", more_rows())
    planner.planned()
    plans: list[int] = []
    ran = once_before_commit(monkeypatch, "segments", lambda: plans.append(planner.plan_next(None, **FEW_FILES)))
    delete_days(command, n, SETTINGS)
    assert ran
    assert plans == [n + 1]
    assert command.segments.last() == n


@clause("13.3", "13.9")
def test_a_stream_takes_the_plan_of_a_retention_that_came_first(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    planner = Planner(lake)
    write_segment(lake.local_segments / "more.parquet", more_rows())
    once_at(monkeypatch, DeltaFiles, "commit", lambda: planned(lake))
    n = planner.plan_next(None, **FEW_FILES)
    command = Batches(lake, buckets=1)
    assert command.planned_retention(n) == FIRST_DAY
    delete_days(command, n, SETTINGS)
    assert planner.plan_next(None, **FEW_FILES) == n + 1


@clause("13.3", "13.9")
def test_two_commands_at_once_are_one(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    early: list[dict[str, int]] = []
    ran = once_at(monkeypatch, DeltaFiles, "commit", lambda: early.append(retained(lake)))
    assert [retained(lake)] == early
    assert ran
    check_deleted(lake)
    assert catalog_of(lake).number == 2


@clause("13.3", "13.9")
@pytest.mark.parametrize("call", [1, 2, 7, 20])
def test_both_keep_the_tables_of_a_retention(lake: Lake, monkeypatch: pytest.MonkeyPatch, *, call: int) -> None:
    n = planned(lake)
    delete_days(Batches(lake, buckets=1), n, SETTINGS)
    ran = once_at(monkeypatch, DeltaFiles, "_commit", lambda: keep_tables(lake, batch=n), call=call)
    keep_tables(lake, batch=n)
    assert ran
    found = last_published(lake)
    assert found is not None
    assert found.n == n


@clause("13.3", "13.9")
def test_a_stream_builds_no_table_again_after_a_retention(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = planned(lake)

    def no_build(*_args: Any, **_options: Any) -> None:
        pytest.fail("nothing in the tables changed")

    monkeypatch.setattr(stream, "publish", no_build)
    assert update(spark, lake) == n
    assert published(spark, lake, batch=n) is not None


@clause("13.3", "13.9")
@pytest.mark.parametrize("call", first_now_rest_in_soak([3, 12]))
def test_a_publication_beside_retention_is_repeated(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, *, call: int
) -> None:
    """The command keeps the tables of its own batch while the stream publishes the next one."""
    n = planned(lake)
    delete_days(Batches(lake, buckets=1), n, SETTINGS)
    write_segment(lake.local_segments / "more.parquet", more_rows())
    ran = once_at(monkeypatch, DeltaFiles, "replace", lambda: keep_tables(lake, batch=n), call=call)
    assert update(spark, lake) == n + 1
    assert ran
    check_published(spark, lake, n + 1)


@clause("13.3", "13.9")
@pytest.mark.parametrize("call", first_now_rest_in_soak([9, 2, 20]))
def test_tables_that_the_stream_has_published_are_not_set_back(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, *, call: int
) -> None:
    """The stream publishes the next batch while the command keeps the tables of its own."""
    n = planned(lake)
    delete_days(Batches(lake, buckets=1), n, SETTINGS)
    write_segment(lake.local_segments / "more.parquet", more_rows())
    ran = once_at(monkeypatch, DeltaFiles, "_commit", lambda: update(spark, lake), call=call)
    keep_tables(lake, batch=n)
    assert ran
    check_published(spark, lake, n + 1)


@clause("13.3", "13.9")
def test_a_live_file_on_a_deleted_day_stays_until_the_next_retention(lake: Lake) -> None:
    """A fault elsewhere must not cost the bytes of rows that tables still have."""
    batches = Batches(lake, buckets=1)
    n = planned(lake)
    before = days_on_disk(lake)
    batches.commit(replace(batches.catalog, number=n, retained_from=FIRST_DAY), [], Counts(), 0)
    delete_days(batches, n, SETTINGS)
    assert days_on_disk(lake) == before
    keep_tables(lake, batch=n)
    assert retained(lake)["events"] > 0
    check_deleted(lake)
    assert catalog_of(lake).number == n + 1
