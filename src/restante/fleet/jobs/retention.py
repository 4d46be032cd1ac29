"""Retention: delete old days of events and arrivals (SPEC 13.3), without Spark.

Where a stream keeps the tables, it is a batch of the stream without segments, planned and committed like the others
(stream/batches). A running stream and this command may meet: the plan of a batch is committed once, both can finish it,
and the one that finds a step done by the other goes on. Published rows of deleted days stay (jobs/publication).
"""

import tempfile
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import pyarrow.compute as pc

from restante.fleet.jobs.changes import last_published
from restante.fleet.jobs.publication import keep_tables
from restante.fleet.lake import upkeep
from restante.fleet.lake.delta import ConcurrentWriter, exists
from restante.fleet.lake.layout import DAY, Lake
from restante.fleet.lake.new_files import delete_tree, first_line, list_files
from restante.fleet.lake.upkeep import DAY_PARTITIONED, Upkeep
from restante.fleet.stream.batches import PLAN_APP, RETAIN, Batches, Catalog
from restante.fleet.stream.bucket_files import BucketWriter
from restante.fleet.stream.bucket_step import Counts
from restante.fleet.stream.retention import without_days
from restante.fleet.stream.state_tables import KINDS
from restante.model.errors import ConfigurationInvalid, OutOfRange, StoreUnusable
from restante.policy.settings import Settings
from restante.policy.shipping import LONGEST_RETENTION_DAYS, SHORTEST_RETENTION_DAYS

_FOLDER: Final = f"{DAY}="


def retain(lake: Lake, settings: Settings, *, days: int, today: date) -> list[Upkeep]:
    """Delete days of events and arrivals older than `days` before `today`, and the bytes of their files."""
    if not exists(lake.stream_table("batches")):
        return upkeep.retain(lake, days=days, today=today.isoformat())
    if not SHORTEST_RETENTION_DAYS <= days <= LONGEST_RETENTION_DAYS:
        limits = {"low": SHORTEST_RETENTION_DAYS, "high": LONGEST_RETENTION_DAYS}
        raise OutOfRange("days that a stream keeps", days, unit="days", **limits)
    try:
        return _retain(Batches(lake, buckets=1), settings, (today - timedelta(days=days)).isoformat())
    except OSError as error:
        raise StoreUnusable(f"the stream's files cannot be written: {first_line(error)}") from error


def _retain(batches: Batches, settings: Settings, first_day: str) -> list[Upkeep]:
    before = batches.catalog
    _finish(batches, settings)
    if _has_before(batches.catalog, first_day):
        try:
            n = batches.plan_retention(first_day)
        except ConcurrentWriter:
            batches.refresh()
            _finish(batches, settings)  # another command's retention; a batch that the stream has planned is named
            if _has_before(batches.catalog, first_day):
                raise
        else:
            delete_days(batches, n, settings)
            keep_tables(batches.lake, batch=n)
    return [_done(before, batches.catalog, kind) for kind in DAY_PARTITIONED]


def delete_days(batches: Batches, n: int, settings: Settings) -> None:
    """Run batch `n`, which is planned to delete old days, unless another process has committed it."""
    first_day = batches.planned_retention(n)
    batches.refresh()
    if first_day is not None and batches.done < n:
        try:
            _commit(batches, n, first_day, settings)
        except (ConcurrentWriter, FileNotFoundError):  # committed by the other, who may have deleted the events
            batches.refresh()
            if batches.done < n:
                raise
    _delete_folders(batches)


def _commit(batches: Batches, n: int, first_day: str, settings: Settings) -> None:
    """The cache is a new directory: one that executors use need not be there, nor belong to this user."""
    root, catalog = batches.lake.root, batches.catalog
    with tempfile.TemporaryDirectory(prefix="restante-retention-", ignore_cleanup_errors=True) as cache:
        writers = [BucketWriter(root, place, Path(cache)) for place in range(len(catalog.buckets))]
        buckets = tuple(
            without_days(writer, bucket, first_day, order=settings.order, dedup=settings.dedup)
            for writer, bucket in zip(writers, catalog.buckets, strict=True)
        )
    batches.commit(replace(catalog, number=n, buckets=buckets, retained_from=first_day), [], Counts(), 0)


def _finish(batches: Batches, settings: Settings) -> None:
    """Finish a retention that was killed. Refuse where new events are not in all tables yet: these need old events."""
    advice = "run 'restante fleet stream --once', or repeat the command while the running stream has nothing to read"
    planned = batches.segments.last(PLAN_APP)
    if planned > batches.done and batches.planned_retention(planned) is None:
        raise ConfigurationInvalid(f"batch {planned} of the stream is planned and not done; {advice}")
    delete_days(batches, planned, settings)
    published = last_published(batches.lake)
    if batches.done and (published is None or not only_retained_since(batches, published.n)):
        raise ConfigurationInvalid(f"the derived tables are not of batch {batches.done}; {advice}")
    if published is not None:
        keep_tables(batches.lake, batch=batches.done)


def only_retained_since(batches: Batches, n: int) -> bool:
    """Whether every batch after `n` deleted old days and did nothing else: no row of a derived table changed."""
    rows = batches.segments.read(["n"], (pc.field("n") > n) & (pc.field("status") == RETAIN))
    return len(rows) == batches.done - n


def _delete_folders(batches: Batches) -> None:
    """Delete the bytes of deleted days. No batch that can still be committed writes to these folders.

    A day with a live file stays, whatever put the file there: readers need its bytes. The next retention removes the
    file from the table first.
    """
    first_day = batches.catalog.retained_from
    for kind in DAY_PARTITIONED if first_day is not None else ():
        address = f"{batches.lake.root.rstrip('/')}/{KINDS[kind].folder}"
        live = {ref.day for ref in batches.catalog.refs(kind).values()}
        for name in list_files(address):
            day = name.removeprefix(_FOLDER)
            if name.startswith(_FOLDER) and day < (first_day or "") and day not in live:
                delete_tree(f"{address}/{name}")


def _has_before(catalog: Catalog, first_day: str) -> bool:
    refs = (ref for kind in DAY_PARTITIONED for ref in catalog.refs(kind).values())
    return any(ref.day is not None and ref.day < first_day for ref in refs)


def _done(before: Catalog, after: Catalog, kind: str) -> Upkeep:
    old, new = before.refs(kind), after.refs(kind)
    deleted = sum(old[name].rows for name in old.keys() - new.keys())
    return Upkeep(table=kind, files_before=len(old), files_after=len(new), rows_deleted=deleted)
