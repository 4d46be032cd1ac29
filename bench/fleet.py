"""The fleet's pipeline on two cores: every bar of its issue in one run, printed with pass or FAIL.

`python -m bench.fleet [--rows N] [--keep DIR] [--only PART ...]`; `--full` for a tenth and ten times the rows, too.
All read the same segments (100 arrivals a session, 1 % repeats, 2 % out of order) and write the same table, Parquet to
Parquet; that it is the same is checked. Every part has a Java process of its own and its figures in a file: with
--keep, a part that was measured is not measured again unless --only names it, so that a run may be ended and begun
again.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

CORES = 2
os.environ["POLARS_MAX_THREADS"] = str(CORES)  # read when polars is imported

from pyspark.sql import SparkSession  # noqa: E402 - after the line above

from bench.fleet_bars import (  # noqa: E402
    BACKFILL,
    DUCKDB,
    OURS,
    PARTS,
    PEERS,
    POLARS,
    REPORT,
    STATE,
    STREAM,
    VALUE,
    WHOLE,
    WINDOWS,
    Figures,
    growth,
    verdicts,
)
from bench.fleet_baselines import by_spark_windows, differing_rows  # noqa: E402
from bench.fleet_stream import InOneValue, OneSession, WithinTheWindow, by_state, by_stream, with_rocks  # noqa: E402
from bench.process_memory import PeakMemory  # noqa: E402
from bench.results import Table, write_results  # noqa: E402
from restante.fleet.jobs.backfill import backfill  # noqa: E402
from restante.fleet.jobs.fleet_report import make_fleet_report  # noqa: E402
from restante.fleet.jobs.generate import generate  # noqa: E402
from restante.fleet.jobs.report_input import look_at, source_of  # noqa: E402
from restante.fleet.kernels.synthetic_fleet import Scenario  # noqa: E402
from restante.fleet.lake.layout import Lake  # noqa: E402
from restante.fleet.lake.segment_discovery import found_in  # noqa: E402
from restante.fleet.lake.segments import find_segments, read_segments  # noqa: E402
from restante.fleet.lake.table_writer import WRITE_OPTIONS  # noqa: E402
from restante.fleet.spark.map_in_arrow import partitions_for  # noqa: E402
from restante.fleet.spark.session import open_session  # noqa: E402
from restante.fleet.transforms.arrivals import arrivals  # noqa: E402
from restante.model.conservation_report import ReadFrom  # noqa: E402
from restante.policy.dead_letters import DeadLetterRetention  # noqa: E402
from restante.policy.settings import Settings  # noqa: E402

SETTINGS = Settings()
ROWS_PER_SESSION = 100
ROWS_PER_CLIENT = 100_000  # at most: a fleet that grows has more clients, not busier ones
FACTS_PER_MESSAGE = 9  # in whole journals: of sender, node and recipient
SMALL_ROWS = 100_000  # to warm up with
PEER_ROWS = 100_000  # for transformWithState: 10 million would take it an hour, and fewer are mostly its start
MANY_ROWS = 50_000_000  # from here on, one round tells enough
ROUNDS = 3
TURNS = (OURS, DUCKDB, POLARS)
"""They take turns, so many times:"""
TURN_ROUNDS = 5
LATER_MS = 10**10
GROWING = (OURS, WHOLE, STREAM)


class Bench:
    """One size: its lakes, its tables and its figures, all in one directory."""

    def __init__(self, home: Path, rows: int) -> None:
        self.home = home / str(rows)
        self.rows = rows
        self.home.mkdir(parents=True, exist_ok=True)
        self._file = self.home / "figures.json"
        self.figures: Figures = json.loads(self._file.read_text("utf-8")) if self._file.exists() else {}

    def note(self, name: str, *, rows: int, seconds: list[float], **more: Any) -> None:
        load = round(os.getloadavg()[0], 1)
        self.figures[name] = {"rows": rows, "seconds": seconds, "load": load, **more}
        self._file.write_text(json.dumps(self.figures, indent=1), "utf-8")
        took = ", ".join(f"{one:.1f}" for one in seconds)
        print(f"  {name}: {rows:,} rows in {took} s, load {load}", flush=True)

    def forget(self, names: list[str]) -> None:
        for name in names:
            self.figures.pop(name, None)

    def out(self, name: str) -> Path:
        return self.home / name.replace(" ", "-")

    def lake(self, name: str, rows: int, *, only_arrivals: bool) -> tuple[Lake, int]:
        """A lake of about so many rows, made if it is not there, and how many it has."""
        lake = Lake(str(self.home / name))
        if not (lake.local_segments / "_SUCCESS").exists():
            shutil.rmtree(lake.root, ignore_errors=True)
            messages = round(rows / 1.01) if only_arrivals else rows // FACTS_PER_MESSAGE
            sessions = max(1, messages // ROWS_PER_SESSION)
            clients = max(Scenario().clients, rows // ROWS_PER_CLIENT)
            # One day and no lost messages: peers' queries skip no gaps (fleet_baselines).
            scenario = Scenario(messages=messages, sessions=sessions, clients=clients, days=1, lost=0.0)
            with _session() as spark:
                generate(spark, lake, scenario, only_arrivals=only_arrivals)
        return lake, sum(segment.rows for segment in find_segments(lake.local_segments)[0])

    def make(self) -> None:
        for lake, rows in (self.arrivals_lake(), self.journals_lake(), self.small_lake(), self.peer_lake()):
            print(f"  {lake.root}: {rows:,} rows", flush=True)

    def arrivals_lake(self) -> tuple[Lake, int]:
        return self.lake("arrivals", self.rows, only_arrivals=True)

    def journals_lake(self) -> tuple[Lake, int]:
        return self.lake("journals", self.rows, only_arrivals=False)

    def small_lake(self) -> tuple[Lake, int]:
        return self.lake("small", SMALL_ROWS, only_arrivals=True)

    def peer_lake(self) -> tuple[Lake, int]:
        return self.lake(f"peer-{PEER_ROWS}", PEER_ROWS, only_arrivals=True)

    def by_spark(self, name: str, work: Callable[[SparkSession, Lake, int, Path], None]) -> None:
        """In a Java process of its own, made warm with a small lake first."""
        small, small_rows = self.small_lake()
        lake, rows = self.arrivals_lake()
        with _session() as spark, PeakMemory() as memory:
            work(spark, small, small_rows, self._fresh(name))
            seconds = self._rounds(name, lambda out: work(spark, lake, rows, out))
        self.note(name, rows=rows, seconds=seconds, peak_mb=memory.peak_mb)

    def in_turns(self, *, has_peers: bool) -> None:
        """Each in a process that lasts for all rounds. To warm up ours has a small lake, peers a whole round."""
        small, small_rows = self.small_lake()
        lake, rows = self.arrivals_lake()
        seconds: dict[str, list[float]] = {name: [] for name in (TURNS if has_peers else (OURS,))}
        peaks = dict.fromkeys(seconds, 0)
        with _session() as spark, ExitStack() as stack:
            ours(spark, small, small_rows, self._fresh(OURS))
            peers = {name: stack.enter_context(_peer(name, lake.segments)) for name in seconds if name != OURS}
            for name, peer in peers.items():
                peer.write(self._fresh(name))
            for _ in range(1 if self.rows >= MANY_ROWS else TURN_ROUNDS):
                out = self._fresh(OURS)
                with PeakMemory(apart=(peer.pid for peer in peers.values())) as memory:
                    start = time.perf_counter()
                    ours(spark, lake, rows, out)
                    took, peak_mb = time.perf_counter() - start, memory.peak_mb
                found = {OURS: (took, peak_mb), **{name: peer.write(self._fresh(name)) for name, peer in peers.items()}}
                for name, (took, peak_mb) in found.items():
                    seconds[name].append(took)
                    peaks[name] = max(peaks[name], peak_mb)
        for name, all_took in seconds.items():
            self.note(name, rows=rows, seconds=all_took, peak_mb=peaks[name])

    def whole(self) -> None:
        """From segments to the report, on journals of senders, nodes and recipients; Java has done nothing before."""
        lake, rows = self.journals_lake()
        shutil.rmtree(lake.tables, ignore_errors=True)
        with _session() as spark, PeakMemory() as memory:
            start = time.perf_counter()
            found = found_in(lake.segments)
            backfill(spark, lake, SETTINGS, found.segments, found.bad, listing=found.listing)
            between = time.perf_counter()
            report_on_tables(spark, lake)
            end = time.perf_counter()
        parts = {BACKFILL: between - start, REPORT: end - between}
        self.note(WHOLE, rows=rows, seconds=[end - start], peak_mb=memory.peak_mb, parts=parts)

    def by_state(self, name: str, processor: OneSession) -> None:
        """`transformWithState` on fewer rows, once to warm up and then in rounds."""
        lake, rows = self.peer_lake()
        with _session() as spark, with_rocks(spark), PeakMemory() as memory:
            by_state(spark, lake, self._fresh(name), processor)
            seconds = self._rounds(name, lambda out: by_state(spark, lake, out, processor))
            expected = self._fresh(f"ours beside {name}")
            ours(spark, lake, rows, expected)
        differing = differing_rows(expected, self.out(name) / "table", cores=CORES)
        if differing:
            raise AssertionError(f"{name} gives another table: {differing} rows differ")
        self.note(name, rows=rows, seconds=seconds, peak_mb=memory.peak_mb, same=True)

    def check(self) -> None:
        """Every peer's table has the rows of ours and no others."""
        for name in PEERS:
            if name in self.figures and OURS in self.figures and self.out(name).exists():
                differing = differing_rows(self.out(OURS), self.out(name), cores=CORES)
                if differing:
                    raise AssertionError(f"{name} gives another table: {differing} rows differ")
                self.figures[name]["same"] = True
                print(f"  {name} gives the same table", flush=True)

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


class _Peer(NamedTuple):
    """A process that writes the table to a directory, as often as it is asked to; `write` returns seconds and MB."""

    pid: int
    write: Callable[[Path], tuple[float, int]]


@contextmanager
def _peer(name: str, segments: str) -> Iterator[_Peer]:
    command = [sys.executable, "-m", "bench.fleet_baselines", name.lower(), segments, str(CORES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def write(out: Path) -> tuple[float, int]:
            stdin.write(f"{out}\n")
            stdin.flush()
            done = json.loads(stdout.readline())
            return done["seconds"], done["peak_mb"]

        yield _Peer(process.pid, write)
        stdin.close()


def ours(spark: SparkSession, lake: Lake, rows: int, out: Path) -> None:
    segments, _ = find_segments(lake.local_segments)
    partitions = partitions_for(rows, at_least=CORES)
    table = arrivals(read_segments(spark, segments), partitions=partitions, order=SETTINGS.order, dedup=SETTINGS.dedup)
    table.write.options(**WRITE_OPTIONS).parquet(str(out))


def report_on_tables(spark: SparkSession, lake: Lake) -> None:
    source = source_of(spark, look_at(lake.root))
    report = make_fleet_report(
        spark,
        source.segments,
        source.bad,
        rows=source.rows,
        tables=source.tables,
        read_from=source.read_from,
        now_ms=Scenario().start_ms + LATER_MS,
        retention=DeadLetterRetention(),
    )
    if report.read_from is not ReadFrom.TABLES:
        raise AssertionError("the report must take the tables that were just written")
    if not report.conservation.balanced:
        raise AssertionError("the books of journals without losses must balance")


def run(bench: Bench, parts: list[str], *, has_peers: bool) -> None:
    work: dict[str, Callable[[], None]] = {
        **dict.fromkeys(TURNS, lambda: bench.in_turns(has_peers=has_peers)),
        WINDOWS: lambda: bench.by_spark(
            WINDOWS, lambda spark, lake, _, out: by_spark_windows(spark, lake.segments, out)
        ),
        WHOLE: bench.whole,
        STREAM: lambda: bench.by_spark(STREAM, lambda spark, lake, _, out: by_stream(spark, lake, out, SETTINGS)),
        STATE: lambda: bench.by_state(STATE, WithinTheWindow(SETTINGS)),
        VALUE: lambda: bench.by_state(VALUE, InOneValue(SETTINGS)),
    }
    for part in parts:
        if part not in bench.figures:
            work[part]()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The fleet's pipeline against its bars.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--full", action="store_true", help="a tenth and ten times the rows as well, without peers")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"measure anew: {', '.join(PARTS)}")
    parser.add_argument("--keep", type=Path, help="a directory for lakes, tables and figures")
    parser.add_argument("--make", action="store_true", help="make the lakes, with --keep, and measure nothing")
    given = parser.parse_args(arguments)
    sizes = (given.rows // 10, given.rows, given.rows * 10) if given.full else (given.rows,)
    tables: list[Table] = []
    with tempfile.TemporaryDirectory(prefix="restante-bench-") as made:
        benches = [Bench(given.keep or Path(made), rows) for rows in sizes]
        if given.make:
            for bench in benches:
                bench.make()
            return
        for bench in benches:
            is_whole = bench.rows == given.rows
            named = given.only or []
            bench.forget([*named, *(TURNS if set(named) & set(TURNS) else ())])
            run(bench, [part for part in named or PARTS if is_whole or part in GROWING], has_peers=is_whole)
            if is_whole:
                bench.check()
                tables += verdicts(bench.rows, bench.figures)
        if given.full:
            tables.append(growth([(bench.rows, bench.figures) for bench in benches], GROWING))
    for table in tables:
        print(table.as_text())
    write_results("fleet", tables)


if __name__ == "__main__":
    main()
