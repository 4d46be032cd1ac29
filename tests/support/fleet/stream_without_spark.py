"""A lake whose tables a stream keeps, made in one batch without Spark. Its derived tables have no rows."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from restante.fleet.jobs.changes import keep_published
from restante.fleet.lake.delta import DeltaFiles
from restante.fleet.lake.layout import Lake
from restante.fleet.stream.annotate import annotate_rows
from restante.fleet.stream.batches import PLAN_APP, Batches, Catalog
from restante.fleet.stream.bucket_files import Bucket, BucketWriter
from restante.fleet.stream.bucket_step import advance
from restante.fleet.stream.rows import EVENTS
from restante.fleet.tables.derived_tables import DERIVED
from restante.policy.settings import Settings
from support.fleet.journal_files import Record


def make_stream_lake(root: Path, rows: Iterable[Record]) -> Lake:
    lake, settings = Lake(str(root)), Settings()
    batches = Batches(lake, buckets=1)
    batches.segments.commit(1, [], app_id=PLAN_APP)
    named = pa.Table.from_pylist([{**row, "source_file": "all.parquet"} for row in rows], schema=EVENTS)
    writer = BucketWriter(lake.root, 0, root / "cache")
    step = advance(writer, Bucket(), annotate_rows(named), order=settings.order, dedup=settings.dedup)
    batches.commit(Catalog(number=1, buckets=(step.bucket,)), [], step.counts, len(named))
    versions = {}
    for table in DERIVED:
        columns = pa.schema([("day", pa.date32())])  # the definitions need a Spark session
        versions[table.name] = DeltaFiles(lake.table(table.name), columns).version
    keep_published(lake, 1, versions)
    return lake
