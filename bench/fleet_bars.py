"""What the figures of `bench/fleet.py` are worth: ratios, the bars of the issue, and growth from size to size."""

import os
import statistics
from collections.abc import Sequence
from typing import Any

from bench.results import Table, bar

OURS, DUCKDB, POLARS, WINDOWS = "ours", "DuckDB", "Polars", "Spark SQL windows"
WHOLE, STREAM = "whole backfill", "stream"
STATE, VALUE = "transformWithState", "the same, in one value"
BACKFILL, REPORT = "backfill", "report"
PARTS = (OURS, DUCKDB, POLARS, WINDOWS, WHOLE, STREAM, STATE, VALUE)
PEERS = {DUCKDB: (1.0, None), POLARS: (0.35, 0.55), WINDOWS: (1.8, None)}
"""Bar and goal of the table of arrivals against each."""
EVENTS_PER_S_BAR = 150_000
STREAM_ROWS_PER_S_BAR = 240_000
STREAM_BARS = {OURS: 0.3, STATE: 30, VALUE: 30}
"""Both ways to keep the state of `transformWithState` have the bar."""
MEMORY_BAR = 1.5

Figures = dict[str, Any]


def rate(figure: Figures) -> float:
    return float(figure["rows"] / statistics.median(figure["seconds"]))


def verdicts(rows: int, figures: Figures) -> list[Table]:
    """Every figure, and every bar that there are figures for; those that are not measured are named."""
    measured = Table(f"{rows:,} rows, 2 of {os.cpu_count()} cores", ["part", "rows", "rows/s", "MB at most", "notes"])
    for name in PARTS:
        if name in figures:
            measured.add(_figure(name, figures[name]))
    bars = Table(f"Bars at {rows:,} rows", ["what", "measured", "bar"])
    for name, (least, goal) in PEERS.items():
        _add_ratio(bars, figures, OURS, name, least=least, goal=goal)
    for name, what, least in (
        (WHOLE, "segments to all tables and the report, events/s", EVENTS_PER_S_BAR),
        (STREAM, "stream, rows/s", STREAM_ROWS_PER_S_BAR),
    ):
        if name in figures:
            reached = rate(figures[name])
            bars.add([what, f"{reached:,.0f}", bar(reached >= least, f"at least {least:,}")])
    for name, least in STREAM_BARS.items():
        _add_ratio(bars, figures, STREAM, name, least=least)
    missing = [name for name in PARTS if name not in figures]
    if missing:
        bars.add([f"not measured: {', '.join(missing)}", "", ""])
    return [measured, bars]


def _figure(name: str, figure: Figures) -> list[str]:
    parts = [f"{part} {took_s:.0f} s" for part, took_s in figure.get("parts", {}).items()]
    notes = [*(["same table"] if figure.get("same") else []), *parts, f"load {figure['load']}"]
    return [name, f"{figure['rows']:,}", f"{rate(figure):,.0f}", f"{figure['peak_mb']:,}", ", ".join(notes)]


def _add_ratio(
    table: Table, figures: Figures, one: str, other: str, *, least: float, goal: float | None = None
) -> None:
    if one not in figures or other not in figures:
        return
    ratio = rate(figures[one]) / rate(figures[other])
    hope = "" if goal is None else f", goal {goal:g}"
    table.add([f"{one} against {other}", f"{ratio:.2f} x", bar(ratio >= least, f"at least {least:g}{hope}")])


def growth(sizes: Sequence[tuple[int, Figures]], parts: Sequence[str]) -> Table:
    """Time for a row, and memory, at each size; memory of the largest against that of the one before."""
    table = Table("From size to size", ["part", "rows", "us a row", "MB at most", "bar"])
    for name in parts:
        there = [(rows, figures[name]) for rows, figures in sizes if name in figures]
        for place, (rows, figure) in enumerate(there):
            says = ""
            if place and place == len(there) - 1:
                ratio = figure["peak_mb"] / there[place - 1][1]["peak_mb"]
                says = bar(ratio <= MEMORY_BAR, f"{ratio:.2f} x the memory before, at most {MEMORY_BAR:g}")
            table.add([name, f"{rows:,}", f"{1e6 / rate(figure):.2f}", f"{figure['peak_mb']:,}", says])
    return table
