"""What changed in the table `events` since the derived tables were last published.

A publication leaves the list of event files that it read and the version of each table that it wrote. The next one
reads the files that were added and removed since. From their rows follow the days, messages and sealed bytes whose rows
can change; all others stay as they are.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from restante.fleet.lake.delta import STREAM_RETENTION_H, DataFile, DeltaFiles
from restante.fleet.lake.layout import DAY, Lake
from restante.fleet.lake.new_files import list_tree
from restante.fleet.lake.reading import read_files, schema_of
from restante.fleet.stream.state_tables import KINDS
from restante.fleet.transforms.messages import concerns_message, utc_day
from restante.fleet.transforms.replicas import concerns_replica
from restante.fleet.transforms.withholding import absences

PUBLISHED: Final = pa.schema([("n", pa.int64()), ("files", pa.binary()), ("versions", pa.string())])
"""One row: the batch that was published last, the event files it had as compressed JSON, and the version of each
derived table as JSON."""

Keep = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Rows of `events` that came or went: the days and writers they are of, and the ids that they are about.

    `messages` has the column message_id, `hashes` payload_hash and `writers` writer; `absences` are those among the
    rows (transforms/withholding).
    """

    days: frozenset[str]
    messages: DataFrame
    hashes: DataFrame
    writers: DataFrame
    absences: DataFrame


def find_change(spark: SparkSession, lake: Lake, live: Mapping[str, DataFile], keep: Keep) -> Change | None:
    """Return what changed since the last publication; None if everything must be built."""
    before = _published_files(lake)
    if before is None:
        return None
    added, removed = sorted(live.keys() - before), sorted(before - live.keys())
    if removed and not list_tree(lake.table("events")).keys() >= set(removed):
        return None  # the rows that went are deleted already
    came, went = read_events(spark, lake, added), read_events(spark, lake, removed)
    # A merged file has rows that were in the files it replaces; these did not change.
    changed = _without(came, went).unionByName(_without(went, came)) if removed else came
    rows = keep(changed.select(DAY, "writer", "kind", "message_id", "payload_hash"))
    return Change(
        days=frozenset(str(row[DAY]) for row in rows.select(DAY).distinct().collect()),
        messages=keep(rows.filter(concerns_message()).select("message_id").distinct()),
        hashes=rows.filter(concerns_replica()).select("payload_hash").distinct(),
        writers=rows.select("writer").distinct(),
        absences=keep(absences(changed)),
    )


def read_events(spark: SparkSession, lake: Lake, paths: list[str]) -> DataFrame:
    """The rows of these files of the table `events`."""
    names = (f"{KINDS['events'].folder}/{path}" for path in paths)
    return read_files(spark, lake, lake.table("events"), names, schema_of("events"))


def days_between(rows: DataFrame, first_ms: str, last_ms: str, days: frozenset[str]) -> frozenset[str]:
    """Those of `days` that lie between the two times of any of these rows."""
    first, last = (sf.date_format(utc_day(sf.col(name)), "yyyy-MM-dd") for name in (first_ms, last_ms))
    spans = [(row[0], row[1]) for row in rows.select(first, last).distinct().collect()]
    return frozenset(day for day in days if any(low <= day <= high for low, high in spans))


def keep_published(lake: Lake, n: int, live: Mapping[str, DataFile], versions: Mapping[str, int]) -> int:
    """From here on the derived tables are those of these event files. Return the batch of the publication before."""
    table = _open(lake)
    before = table.last()
    row = {"n": n, "files": zlib.compress(json.dumps(sorted(live)).encode(), 1), "versions": json.dumps(versions)}
    file = table.write(pa.Table.from_pylist([row], schema=PUBLISHED))
    table.replace([file], list(table.live()), batch=n)
    return before


def published_versions(lake: Lake) -> dict[str, int]:
    """The version of each derived table after the last publication; none before the first."""
    rows = _open(lake).read(["versions"]).to_pylist()
    versions: dict[str, int] = json.loads(rows[0]["versions"]) if rows else {}
    return versions


def _published_files(lake: Lake) -> frozenset[str] | None:
    rows = _open(lake).read(["files"]).to_pylist()
    return frozenset(json.loads(zlib.decompress(rows[0]["files"]))) if rows else None


def _open(lake: Lake) -> DeltaFiles:
    return DeltaFiles(lake.stream_table("published"), PUBLISHED, retention_h=STREAM_RETENTION_H)


def _without(rows: DataFrame, others: DataFrame) -> DataFrame:
    return rows.join(others.select("event_id"), on="event_id", how="left_anti")
