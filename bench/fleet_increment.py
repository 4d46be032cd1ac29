"""What a report costs after a day of new events, on top of a long history and alone.

`python -m bench.fleet_increment [--messages N] [--days N] [--keep DIR]`. One synthetic fleet is cut at its last
midnight: messages on their way at that time open the day before again. Both lakes get the last day's segments from a
stream; then the tables are published and the report is made from them. Only that is timed, in one warm Java process.
Memory is the most that all processes held since the lake was begun: for the long history, its stream and the tables of
all of it are in it.
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from bench.process_memory import PeakMemory
from bench.results import Table, bar, write_results
from restante.fleet.jobs.fleet_report import make_fleet_report
from restante.fleet.jobs.publish import publish
from restante.fleet.jobs.report_input import look_at, source_of
from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.kernels.synthetic_fleet import DAY_MS, Scenario
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.reading import segments_read
from restante.fleet.lake.segments import find_segments
from restante.fleet.spark.session import open_session
from restante.fleet.stream.batches import last_catalog, open_batches
from restante.fleet.transforms.synthetic import all_events
from restante.model.provenance import provenance_of
from restante.policy.dead_letters import DeadLetterRetention
from restante.policy.settings import Settings

ROWS_PER_SEGMENT = 1_000_000
TIMES = 2.0  # at most: the bar of the issue
NOW_MS = Scenario().end_ms


def make(spark: SparkSession, home: Path, scenario: Scenario) -> None:
    """Write the segments of all days but the last, and those of the last."""
    if (home / "_SUCCESS").exists():
        return
    is_last = sf.col("at_ms") >= scenario.end_ms - DAY_MS
    events = all_events(spark, scenario).withColumn("days", sf.when(is_last, "last").otherwise("first"))
    writer = events.write.mode("overwrite").partitionBy("days").option("compression", "zstd")
    writer.option("maxRecordsPerFile", ROWS_PER_SEGMENT).parquet(str(home))


def add(lake: Lake, directory: Path) -> None:
    lake.local_segments.mkdir(parents=True, exist_ok=True)
    for file in directory.glob("*.parquet"):
        os.link(file, lake.local_segments / f"{directory.name}-{file.name}")  # both parts have files of one name


def stream(spark: SparkSession, lake: Lake, *, is_published: bool) -> None:
    options = StreamOptions(once=True, is_published=is_published)
    start_stream(spark, lake, Settings(), options).await_end(threading.Event())


def report(spark: SparkSession, lake: Lake) -> tuple[float, float]:
    """Publish the tables and make the report; return the seconds of each."""
    catalog = last_catalog(open_batches(lake))
    if catalog is None:
        raise AssertionError("the stream has read no batch")
    segments, _ = segments_read(lake, catalog)
    began = time.perf_counter()
    publish(
        spark,
        lake,
        now_ms=NOW_MS,
        retention=DeadLetterRetention(),
        provenance=provenance_of(segment.claim for segment in segments),
        batch=catalog.number,
    )
    between = time.perf_counter()
    source = source_of(spark, look_at(lake.root))
    if source.tables is None:
        raise AssertionError("the report must take the tables that were just published")
    make_fleet_report(
        spark,
        source.segments,
        source.bad,
        rows=source.rows,
        tables=source.tables,
        read_from=source.read_from,
        now_ms=NOW_MS,
        retention=DeadLetterRetention(),
    )
    return between - began, time.perf_counter() - between


def rows_of(directory: Path) -> int:
    return sum(segment.rows for segment in find_segments(directory)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description="What a report costs after a day of new events.")
    parser.add_argument("--messages", type=int, default=2_300_000, help="of all days; each has about nine events")
    parser.add_argument("--days", type=int, default=21)
    parser.add_argument("--keep", type=Path, help="a directory for the segments, used again")
    given = parser.parse_args()
    scenario = Scenario(
        messages=given.messages, sessions=max(1, given.messages // 100), clients=500, days=given.days, churn=0.0
    )
    with (
        tempfile.TemporaryDirectory(prefix="restante-bench-") as made,
        open_session(app_name="restante bench", master="local[2]") as spark,
    ):
        home = given.keep or Path(made)
        make(spark, home, scenario)
        history, new = (rows_of(home / f"days={name}") for name in ("first", "last"))
        table = Table(
            f"A report after {new:,} new rows, on top of {history:,} and alone, local[2]",
            ["lake", "tables s", "report s", "MB at most", "bar"],
        )
        seconds = {}
        for name in ("warm-up", "alone", "on top"):
            lake = Lake(str(Path(made) / f"lake {name}".replace(" ", "-")))
            with PeakMemory() as memory:
                if name == "on top":
                    add(lake, home / "days=first")
                    stream(spark, lake, is_published=True)
                add(lake, home / "days=last")
                stream(spark, lake, is_published=False)
                published, reported = report(spark, lake)
            seconds[name] = published + reported
            times = seconds[name] / seconds.get("alone", seconds[name])
            says = bar(times <= TIMES, f"{times:.2f} x, at most {TIMES:g} x") if name == "on top" else ""
            table.add([name, f"{published:.1f}", f"{reported:.1f}", f"{memory.peak_mb:,}", says])
            print(*table.rows[-1], f"load {os.getloadavg()[0]:.1f}", flush=True)
    print(table.as_text())
    write_results("fleet_increment", [table])


if __name__ == "__main__":
    main()
