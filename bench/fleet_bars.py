"""What the figures of `bench/fleet.py` are worth: ratios, the bars of the issue, and growth from size to size."""

import os
import statistics
from collections.abc import Sequence
from typing import Any

from bench.measure import verdict

OURS, DUCKDB, POLARS, WINDOWS = "ours", "DuckDB", "Polars", "Spark SQL windows"
WHOLE, STREAM = "whole backfill", "stream"
STATE, VALUE = "transformWithState", "the same, in one value"
BACKFILL, REPORT = "backfill", "report"
PARTS = (OURS, DUCKDB, POLARS, WINDOWS, WHOLE, STREAM, STATE, VALUE)
PEERS = {DUCKDB: (1.0, None), POLARS: (0.35, 0.55), WINDOWS: (1.8, None)}
"""Bar and dream of the table of arrivals against each."""
EVENTS_PER_S_BAR = 150_000
STREAM_ROWS_PER_S_BAR = 240_000
STREAM_BARS = {OURS: 0.3, STATE: 30, VALUE: 30}
"""Both ways to keep the state of `transformWithState` have the bar."""
MEMORY_BAR = 1.5

Figures = dict[str, Any]


def rate(figure: Figures) -> float:
    return float(figure["rows"] / statistics.median(figure["seconds"]))


def print_verdicts(rows: int, figures: Figures) -> None:
    """Every bar that there are figures for; those that are not measured are named."""
    print(f"\n{rows:,} rows, 2 of {os.cpu_count()} cores")
    for name in PARTS:
        if name in figures:
            _print_figure(name, figures[name])
    for name, (bar, dream) in PEERS.items():
        _print_ratio(figures, OURS, name, bar, dream)
    if WHOLE in figures:
        events = rate(figures[WHOLE])
        passed = verdict(events >= EVENTS_PER_S_BAR)
        print(f"  validate to report {events:>9,.0f} events/s   {passed} (at least {EVENTS_PER_S_BAR:,})")
    if STREAM in figures:
        rows_per_s = rate(figures[STREAM])
        passed = verdict(rows_per_s >= STREAM_ROWS_PER_S_BAR)
        print(f"  stream             {rows_per_s:>9,.0f} rows/s     {passed} (at least {STREAM_ROWS_PER_S_BAR:,})")
    for name, least in STREAM_BARS.items():
        _print_ratio(figures, STREAM, name, least, None)
    missing = [name for name in PARTS if name not in figures]
    if missing:
        print(f"  not measured: {', '.join(missing)}")


def _print_figure(name: str, figure: Figures) -> None:
    parts = ", ".join(f"{part} {took_s:.0f} s" for part, took_s in figure.get("parts", {}).items())
    same = "  same table" if figure.get("same") else ""
    few = f"  on {figure['rows']:,} rows" if name in (STATE, VALUE) else ""
    print(f"  {name:<26} {rate(figure):>12,.0f} rows/s {figure['peak_mb']:>7,} MB at most{same}{few}  {parts}".rstrip())


def _print_ratio(figures: Figures, one: str, other: str, bar: float, dream: float | None) -> None:
    if one not in figures or other not in figures:
        return
    ratio = rate(figures[one]) / rate(figures[other])
    hope = "" if dream is None else f", dream {dream:g} {'reached' if ratio >= dream else 'not reached'}"
    print(f"  {one:<6} {ratio:5.2f} x {other:<26} {verdict(ratio >= bar)} (at least {bar:g}{hope})")


def print_growth(sizes: Sequence[tuple[int, Figures]], parts: Sequence[str]) -> None:
    """Time for a row, and memory, at each size; memory of the largest against that of the one before."""
    print("\nGrowth")
    for name in parts:
        there = [(rows, figures[name]) for rows, figures in sizes if name in figures]
        for rows, figure in there:
            print(f"  {name:<15} {rows:>12,} rows {1e6 / rate(figure):7.2f} us/row {figure['peak_mb']:>7,} MB")
        if len(there) == len(sizes):
            ratio = there[-1][1]["peak_mb"] / there[-2][1]["peak_mb"]
            print(f"  {name:<15} memory {ratio:.2f} x   {verdict(ratio <= MEMORY_BAR)} (at most {MEMORY_BAR:g})")
