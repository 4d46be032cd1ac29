"""The fleet's pipeline on two cores: arrivals against DuckDB, Polars and Spark's windows, and the whole of a backfill.

`python -m bench.fleet [--rows N] [--keep DIR] [--only PART ...]`, `--full` for 1, 10 and 100 million rows. All read the
same segments (100 arrivals a session, 1 % repeats, 2 % out of order) and write the same table, Parquet to Parquet; that
it is the same is checked, row for row. With --keep, parts run in commands of their own and the table grows.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CORES = 2
os.environ["POLARS_MAX_THREADS"] = str(CORES)  # read when polars is imported

from pyspark.sql import SparkSession  # noqa: E402 - after the line above

from bench.fleet_peers import by_duckdb, by_polars, by_spark_windows, differing_rows  # noqa: E402
from bench.measure import verdict  # noqa: E402
from bench.process_memory import PeakMemory  # noqa: E402
from restante.fleet.jobs.backfill import backfill  # noqa: E402
from restante.fleet.jobs.fleet_report import make_fleet_report  # noqa: E402
from restante.fleet.jobs.generate import generate  # noqa: E402
from restante.fleet.lake import Lake  # noqa: E402
from restante.fleet.lake_tables import WRITE_OPTIONS  # noqa: E402
from restante.fleet.segments import find_segments, read_segments  # noqa: E402
from restante.fleet.session import open_session  # noqa: E402
from restante.fleet.transforms.arrivals import arrivals, partitions_for  # noqa: E402
from restante.fleet.transforms.synthetic import Scenario  # noqa: E402
from restante.policy.dead_letters import DeadLetterRetention  # noqa: E402
from restante.policy.settings import Settings  # noqa: E402

SETTINGS = Settings()
ROWS_PER_SESSION = 100
FACTS_PER_MESSAGE = 8  # in whole journals: of sender, node and recipient
WARM_UP_ROWS = 100_000
MANY_ROWS = 5_000_000  # from here on, one round tells enough
ROUNDS = 3
LATER_MS = 10**10

OURS, DUCKDB, POLARS, WINDOWS = "ours", "DuckDB", "Polars", "Spark SQL windows"
BACKFILL, REPORT = "backfill", "report"
PARTS = (OURS, DUCKDB, POLARS, WINDOWS, BACKFILL, REPORT)
BARS = {DUCKDB: (0.7, 1.0), POLARS: (0.35, 0.55), WINDOWS: (1.8, None)}
EVENTS_PER_S_BAR = 60_000
MEMORY_BAR = 1.5

Figures = dict[str, Any]


class Bench:
    """One size: its lakes, its tables and its figures, all in one directory."""

    def __init__(self, home: Path, rows: int) -> None:
        self.home = home / str(rows)
        self.rows = rows
        self.home.mkdir(parents=True, exist_ok=True)
        self._file = self.home / "figures.json"
        self.figures: Figures = json.loads(self._file.read_text("utf-8")) if self._file.exists() else {}

    def note(self, name: str, *, rows: int, seconds: list[float], peak_mb: int | None = None) -> None:
        self.figures[name] = {"rows": rows, "seconds": seconds, "peak_mb": peak_mb}
        self._file.write_text(json.dumps(self.figures), "utf-8")
        print(f"  {name}: {rows:,} rows in {', '.join(f'{took:.1f}' for took in seconds)} s", flush=True)

    def out(self, name: str) -> Path:
        return self.home / name.replace(" ", "-")

    def lake(self, name: str, rows: int, *, only_arrivals: bool) -> tuple[Lake, int]:
        """A lake of about so many rows, made if it is not there, and how many it has."""
        lake = Lake(str(self.home / name))
        if not (lake.local_segments / "_SUCCESS").exists():
            shutil.rmtree(lake.root, ignore_errors=True)
            messages = round(rows / 1.01) if only_arrivals else rows // FACTS_PER_MESSAGE
            scenario = Scenario(messages=messages, sessions=max(1, messages // ROWS_PER_SESSION))
            with _session() as spark:
                generate(spark, lake, scenario, only_arrivals=only_arrivals)
        return lake, sum(segment.rows for segment in find_segments(lake.local_segments)[0])

    def arrivals_lake(self) -> tuple[Lake, int]:
        return self.lake("arrivals", self.rows, only_arrivals=True)

    def by_spark(self, name: str, work: Callable[[SparkSession, Lake, int, Path], None]) -> None:
        """In a Java process of its own, made warm with a small lake first."""
        small, small_rows = self.lake("small", WARM_UP_ROWS, only_arrivals=True)
        lake, rows = self.arrivals_lake()
        with _session() as spark, PeakMemory() as memory:
            work(spark, small, small_rows, self._fresh(name))
            seconds = self._rounds(name, lambda out: work(spark, lake, rows, out))
        self.note(name, rows=rows, seconds=seconds, peak_mb=memory.peak_mb)

    def by_peer(self, name: str, work: Callable[[str, Path], None]) -> None:
        lake, rows = self.arrivals_lake()
        with PeakMemory() as memory:
            seconds = self._rounds(name, lambda out: work(lake.segments, out))
        self.note(name, rows=rows, seconds=seconds, peak_mb=memory.peak_mb)

    def journals(self, name: str, work: Callable[[SparkSession, Lake], None]) -> None:
        """On the whole journals of senders, nodes and recipients, in a Java process that has done nothing before."""
        lake, rows = self.lake("journals", self.rows, only_arrivals=False)
        with _session() as spark, PeakMemory() as memory:
            start = time.perf_counter()
            work(spark, lake)
            took_s = time.perf_counter() - start
        self.note(name, rows=rows, seconds=[took_s], peak_mb=memory.peak_mb)

    def check(self) -> None:
        """Every peer's table has the rows of ours and no others."""
        for name in BARS:
            if name in self.figures and OURS in self.figures and self.out(name).exists():
                differing = differing_rows(self.out(OURS), self.out(name))
                if differing:
                    raise AssertionError(f"{name} gives another table: {differing} rows differ")
                print(f"  {name} gives the same table, row for row", flush=True)

    def _rounds(self, name: str, work: Callable[[Path], None]) -> list[float]:
        seconds = []
        for _ in range(1 if self.rows >= MANY_ROWS else ROUNDS):
            out = self._fresh(name)
            start = time.perf_counter()
            work(out)
            seconds.append(time.perf_counter() - start)
        return seconds

    def _fresh(self, name: str) -> Path:
        shutil.rmtree(self.out(name), ignore_errors=True)
        return self.out(name)


@contextmanager
def _session() -> Iterator[SparkSession]:
    with open_session(app_name="restante bench", master=f"local[{CORES}]") as spark:
        yield spark


def ours(spark: SparkSession, lake: Lake, rows: int, out: Path) -> None:
    segments, _ = find_segments(lake.local_segments)
    partitions = partitions_for(rows, at_least=CORES)
    table = arrivals(read_segments(spark, segments), partitions=partitions, order=SETTINGS.order, dedup=SETTINGS.dedup)
    table.write.options(**WRITE_OPTIONS).parquet(str(out))


def all_tables(spark: SparkSession, lake: Lake) -> None:
    backfill(spark, lake, SETTINGS, *find_segments(lake.local_segments))


def whole_report(spark: SparkSession, lake: Lake) -> None:
    found = find_segments(lake.local_segments)
    now_ms = Scenario().start_ms + LATER_MS
    report = make_fleet_report(spark, *found, now_ms=now_ms, retention=DeadLetterRetention())
    if not report.books.balanced:
        raise AssertionError("the books of journals without losses must balance")


def run(bench: Bench, parts: list[str]) -> None:
    work: dict[str, Callable[[], None]] = {
        OURS: lambda: bench.by_spark(OURS, ours),
        DUCKDB: lambda: bench.by_peer(DUCKDB, lambda segments, out: by_duckdb(segments, out, cores=CORES)),
        POLARS: lambda: bench.by_peer(POLARS, by_polars),
        WINDOWS: lambda: bench.by_spark(
            WINDOWS, lambda spark, lake, _, out: by_spark_windows(spark, lake.segments, out)
        ),
        BACKFILL: lambda: bench.journals(BACKFILL, all_tables),
        REPORT: lambda: bench.journals(REPORT, whole_report),
    }
    for part in parts:
        work[part]()


def print_table(bench: Bench) -> None:
    figures = bench.figures
    print(f"\n{bench.rows:,} rows, {CORES} cores, load {os.getloadavg()[0]:.1f}, {platform.processor() or 'CPU'}")
    for name, figure in figures.items():
        memory = "" if figure["peak_mb"] is None else f"{figure['peak_mb']:>9,} MB at most"
        print(f"  {name:<20} {_rate(figure):>12,.0f} rows/s{memory}")
    for name, (bar, dream) in BARS.items():
        if OURS in figures and name in figures:
            ratio = _rate(figures[OURS]) / _rate(figures[name])
            hope = "" if dream is None else f", dream {dream:g} {'reached' if ratio >= dream else 'not reached'}"
            print(f"  ours {ratio:5.2f} x {name:<20} {verdict(ratio >= bar)} (at least {bar:g}{hope})")
    if BACKFILL in figures and REPORT in figures:
        took_s = sum(statistics.median(figures[name]["seconds"]) for name in (BACKFILL, REPORT))
        rate = figures[BACKFILL]["rows"] / took_s
        print(
            f"  validate to report {rate:>9,.0f} events/s   {verdict(rate >= EVENTS_PER_S_BAR)} ({EVENTS_PER_S_BAR:,})"
        )


def _rate(figure: Figures) -> float:
    return float(figure["rows"] / statistics.median(figure["seconds"]))


def print_growth(benches: list[Bench]) -> None:
    """Time for a row, and memory, at each size."""
    print("\nGrowth")
    for name in (OURS, BACKFILL, REPORT):
        for bench in benches:
            figure = bench.figures[name]
            print(f"  {name:<10} {bench.rows:>12,} rows {1e6 / _rate(figure):6.2f} us/row {figure['peak_mb']:>7,} MB")
        ratio = benches[-1].figures[name]["peak_mb"] / benches[-2].figures[name]["peak_mb"]
        print(f"  {name:<10} memory {ratio:.2f} x   {verdict(ratio <= MEMORY_BAR)} (at most {MEMORY_BAR:g})")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The fleet's pipeline against DuckDB, Polars and Spark SQL.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--full", action="store_true", help="1, 10 and 100 million rows; ours and the backfill alone")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--keep", type=Path, help="a directory for lakes, tables and figures")
    parser.add_argument("--no-check", action="store_true", help="do not compare the tables")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as made:
        home = given.keep or Path(made)
        benches = []
        for rows in (1_000_000, 10_000_000, 100_000_000) if given.full else (given.rows,):
            bench = Bench(home, rows)
            run(bench, [OURS, BACKFILL, REPORT] if given.full else given.only)
            if not given.no_check:
                bench.check()
            print_table(bench)
            benches.append(bench)
        if given.full:
            print_growth(benches)


if __name__ == "__main__":
    main()
