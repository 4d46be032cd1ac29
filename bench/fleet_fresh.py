"""How long after a segment arrives all tables have its rows: `python -m bench.fleet_fresh [--seconds N] [--keep DIR]`.

A synthetic fleet's journals, in order of time, are cut into segments of 50,000 rows; one arrives each second beside a
running stream, which updates the derived tables after every batch. A segment is in all tables once the publication of
its batch, or of a later one, is committed. A minute of segments before the first that counts makes Java warm.
"""

import argparse
import math
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from bench.results import Table, bar, write_results
from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.kernels.synthetic_fleet import Scenario
from restante.fleet.lake.layout import Lake
from restante.fleet.spark.session import open_session
from restante.fleet.stream.batches import READ, open_segments
from restante.fleet.transforms.synthetic import all_events
from restante.policy.settings import Settings

ROWS_PER_S = 50_000
EVENTS_PER_MESSAGE = 9
BAR_S = 15.0
WARM_UP_S = 60
LOOK_S = 0.05
POLL_S = 1.0


def make(spark: SparkSession, home: Path, seconds: int) -> list[Path]:
    """One file for each second, in order of time."""
    if not (home / "_SUCCESS").exists():
        messages = seconds * ROWS_PER_S // EVENTS_PER_MESSAGE
        scenario = Scenario(messages=messages, sessions=max(1, messages // 100), clients=500, days=1)
        events = all_events(spark, scenario).repartitionByRange(max(1, seconds // 10), "at_ms")
        ordered = events.sortWithinPartitions("at_ms").write.mode("overwrite")
        ordered.option("compression", "zstd").option("maxRecordsPerFile", ROWS_PER_S).parquet(str(home))
    return sorted(home.glob("*.parquet"))


class Arrivals(threading.Thread):
    """Links one segment a second into the lake, and notes when."""

    def __init__(self, files: list[Path], lake: Lake) -> None:
        super().__init__(daemon=True)
        self._files = files
        self._lake = lake
        self.at_s: dict[str, float] = {}

    def run(self) -> None:
        began = time.monotonic()
        for number, file in enumerate(self._files):
            time.sleep(max(0.0, began + number - time.monotonic()))
            self.at_s[file.name] = time.monotonic()
            os.link(file, self._lake.local_segments / file.name)


def measured(spark: SparkSession, lake: Lake, files: list[Path]) -> list[tuple[float, float]]:
    """When each segment arrived and how long after it was in all tables, in seconds."""
    lake.local_segments.mkdir(parents=True)
    published: list[tuple[int, float]] = []

    def note(n: int, took_s: float) -> None:
        published.append((n, time.monotonic()))
        print(f"tables of batch {n}: {took_s:.1f} s", flush=True)

    options = StreamOptions(poll_interval_s=POLL_S)
    running = start_stream(
        spark,
        lake,
        Settings(),
        options,
        on_batch=lambda done: print(f"batch {done.n}: {done.rows:,} rows, {done.took_s:.1f} s", flush=True),
        on_publish=note,
    )
    arrivals = Arrivals(files, lake)
    arrivals.start()
    looked_at = 0  # only new publications are looked at: this process has the driver, too
    try:
        while True:
            seen = len(published)  # before the look: what is published during it is looked at the next time
            if not arrivals.is_alive() and seen > looked_at:
                if _are_all_published(lake, files, published[:seen]):
                    break
                looked_at = seen
            if not running.query.isActive:
                raise AssertionError(f"the stream ended: {running.query.exception()}")
            time.sleep(LOOK_S)
    finally:
        running.close()
    batch_of = _batches(lake)
    began = min(arrivals.at_s.values())
    found = []
    for name, at_s in sorted(arrivals.at_s.items(), key=lambda one: one[1]):
        seen_s = min(when for n, when in published if n >= batch_of[name])
        found.append((at_s - began, seen_s - at_s))
    return found


def _are_all_published(lake: Lake, files: list[Path], published: list[tuple[int, float]]) -> bool:
    batch_of = _batches(lake)
    return len(batch_of) == len(files) and bool(published) and published[-1][0] >= max(batch_of.values())


def _batches(lake: Lake) -> dict[str, int]:
    rows = open_segments(lake).read(["n", "name", "status"]).to_pylist()
    return {row["name"]: row["n"] for row in rows if row["status"] == READ}


def main() -> None:
    parser = argparse.ArgumentParser(description="How long until a segment is in all tables.")
    parser.add_argument("--seconds", type=int, default=240, help="of arriving segments, the warm-up included")
    parser.add_argument("--keep", type=Path, help="a directory for the segments, used again")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="restante-bench-") as made,
        open_session(app_name="restante bench", master="local[2]") as spark,
    ):
        files = make(spark, given.keep or Path(made, "made"), given.seconds)[: given.seconds]
        spark.catalog.clearCache()
        found = measured(spark, Lake(str(Path(made, "lake"))), files)
    table = Table(
        "From a segment's arrival to all tables, 50,000 rows a second, local[2]",
        ["minute", "segments", "median s", "longest s", "bar"],
    )
    for minute in range(math.ceil(len(files) / 60)):
        took = [late_s for at_s, late_s in found if minute * 60 <= at_s < (minute + 1) * 60]
        worst = max(took)
        says = "warm-up" if (minute + 1) * 60 <= WARM_UP_S else bar(worst <= BAR_S, f"at most {BAR_S:.0f} s")
        table.add([str(minute + 1), str(len(took)), f"{statistics.median(took):.1f}", f"{worst:.1f}", says])
    print(table.as_text())
    write_results("fleet_fresh", [table])


if __name__ == "__main__":
    main()
