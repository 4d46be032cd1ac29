"""What a long life costs a stream's tables: `python -m bench.fleet_commits [--batches N]`, commits without Spark.

A synthetic fleet's journals, in order of time, come in 1,000 batches of 16 buckets; what a task does to a bucket runs
in this process (stream/bucket_step), and each batch is committed to all tables of the stream. A table is opened as any
reader opens it: its log is read, and its live files are listed. Time and size are those of the worst table.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from bench.results import Table, bar, write_results
from restante.fleet.jobs.micro_batch import BUCKETS
from restante.fleet.kernels.synthetic_fleet import Scenario
from restante.fleet.kernels.synthetic_journals import journals_of
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.upkeep import DAY_PARTITIONED
from restante.fleet.stream.annotate import annotate_rows
from restante.fleet.stream.batches import MERGE_INTERVAL, READ, Batches, EventChanges, SegmentRow
from restante.fleet.stream.bucket_files import BucketWriter
from restante.fleet.stream.bucket_step import Counts, advance
from restante.fleet.stream.rows import EVENTS
from restante.policy.settings import Settings

SETTINGS = Settings()
ROWS_PER_BATCH = 320
EVENTS_PER_MESSAGE = 9
LOOKS = 10
ROUNDS = 5
OPEN_MS_BAR = 100.0
CHECKPOINT_MB_BAR = 10.0
GROWTH_BAR = 1.5
"""From the middle of the batches to their end, with a merge of all files before both."""


def parts_of(batches: int) -> Iterator[list[Any]]:
    """The rows of each bucket, batch by batch."""
    messages = batches * ROWS_PER_BATCH // EVENTS_PER_MESSAGE
    scenario = Scenario(messages=messages, sessions=max(1, messages // 100), clients=100, days=14)
    rows = journals_of(scenario, np.arange(messages)).sort_by("at_ms")
    _, writers = np.unique(np.asarray(rows["writer"].to_pylist()), return_inverse=True)
    numbers = np.zeros(len(rows), ">u8")
    for one in range(writers.max() + 1):
        numbers[writers == one] = np.arange(1, np.count_nonzero(writers == one) + 1)
    ids = pa.array(map(_event_id, rows["writer"].to_pylist(), numbers.tolist()), pa.binary())
    files = pa.repeat("a.parquet", len(rows))
    whole = rows.append_column("event_id", ids).append_column("source_file", files).select(EVENTS.names).cast(EVENTS)
    places = np.linspace(0, len(rows), batches + 1).astype(int)
    for begin, end in pairwise(places):
        bucket = writers[begin:end] % BUCKETS
        part = whole.slice(begin, end - begin)
        yield [part.filter(pa.array(bucket == one)) for one in range(BUCKETS)]


def _event_id(writer: bytes, number: int) -> bytes:
    return writer[:8] + number.to_bytes(8, "big")


def commit(batches: Batches, n: int, parts: list[Any], cache: Path) -> float:
    """Run the buckets of one batch; return the seconds that its commits took."""
    buckets, counts, changes = list(batches.catalog.buckets), Counts(), EventChanges()
    for place, rows in enumerate(parts):
        if len(rows):
            writer = BucketWriter(batches.lake.root, place, cache)
            step = advance(writer, buckets[place], annotate_rows(rows), order=SETTINGS.order, dedup=SETTINGS.dedup, n=n)
            writer.drop_cached(step.bucket)
            buckets[place], counts = step.bucket, counts + step.counts
            names = (tuple(ref.name for ref in refs) for refs in (step.came, step.went))
            changes += EventChanges(came=next(names), went=next(names))
    segment = SegmentRow(
        n=n, name=f"{n:08}.parquet", status=READ, size_bytes=0, changed_ns=0, rows=sum(map(len, parts))
    )
    began = time.perf_counter()
    batches.commit(
        replace(batches.catalog, number=n, buckets=tuple(buckets), counts=batches.catalog.counts + counts),
        [segment],
        counts,
        segment.rows,
        changes,
    )
    took = time.perf_counter() - began
    if n % MERGE_INTERVAL == 0:
        batches.vacuum()
    return took


def open_ms(address: str) -> float:
    """The median of some rounds."""
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        pc.count(pa.table(DeltaTable(address).get_add_actions(flatten=True))["path"])
        took.append(1_000 * (time.perf_counter() - began))
    return statistics.median(took)


def files_a_day(batches: Batches) -> float:
    """Live files of `events` and `arrivals`, of an average day before the newest one."""
    days = [ref.day or "" for kind in DAY_PARTITIONED for ref in batches.catalog.refs(kind).values()]
    closed = [day for day in days if day < max(days)]
    return len(closed) / max(1, len(set(closed)))


def log_mb(address: str, pattern: str) -> float:
    files = Path(address, "_delta_log").glob(pattern)
    return max((path.stat().st_size for path in files), default=0) / 1e6


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as made:
        yield Path(made)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a long life costs a stream's tables.")
    parser.add_argument("--batches", type=int, default=1_000)
    given = parser.parse_args()
    table = Table(
        f"{given.batches:,} batches committed without Spark, {BUCKETS} buckets",
        ["batches", "commit ms", "open ms", "log checkpoint MB", "files", "files a closed day", "bar"],
    )
    opened = {}
    with _home() as home:
        batches = Batches(Lake(str(home / "lake")), buckets=BUCKETS)
        addresses = [one.address for one in (*batches.tables.values(), batches.segments, batches.batches)]
        commits: list[float] = []
        for n, parts in enumerate(parts_of(given.batches), 1):
            commits.append(commit(batches, n, parts, home / "cache"))
            if n % max(1, given.batches // LOOKS):
                continue
            opened[n] = max(map(open_ms, addresses))
            largest = max(log_mb(address, "*.checkpoint*.parquet") for address in addresses)
            files = sum(len(one.live()) for one in batches.tables.values())
            says = ""
            if n == given.batches:
                growth = opened[n] / opened[n // 2]
                passed = opened[n] <= OPEN_MS_BAR and largest <= CHECKPOINT_MB_BAR and growth <= GROWTH_BAR
                says = bar(passed, f"open at most {OPEN_MS_BAR:.0f} ms, {growth:.2f} x that at half, at most 10 MB")
            median_ms = 1_000 * statistics.median(commits[-given.batches // LOOKS :])
            row = [
                f"{n:,}",
                f"{median_ms:.0f}",
                f"{opened[n]:.1f}",
                f"{largest:.2f}",
                f"{files:,}",
                f"{files_a_day(batches):.0f}",
                says,
            ]
            table.add(row)
            print("  ".join(row), f"load {os.getloadavg()[0]:.1f}", flush=True)
    write_results("fleet_commits", [table])


if __name__ == "__main__":
    main()
