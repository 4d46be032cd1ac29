"""Results of benchmarks as tables: printed, kept in bench/results as JSON, and shown in docs/benchmarks.md."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).parent / "results"


@dataclass(slots=True)
class Table:
    """A title, the names of the columns and rows of text. `plot` names the column of a chart's labels and those
    that have a chart each."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    plot: tuple[int, ...] | None = None

    def add(self, row: list[str]) -> None:
        self.rows.append(row)

    def as_text(self) -> str:
        widths = [max(len(row[at]) for row in [self.columns, *self.rows]) for at in range(len(self.columns))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in [self.columns, *self.rows]
        ]
        return "\n  ".join([self.title, *lines])


def percentile(values: Sequence[float], share: float) -> float:
    return statistics.quantiles(values, n=1_000, method="inclusive")[round(share * 1_000) - 1]


def milliseconds(us: float) -> str:
    return f"{us / 1_000:.3f}"


def bar(passed: bool, what: str = "") -> str:
    """Say whether a bar is reached."""
    return ("pass" if passed else "FAIL") + (f" ({what})" if what else "")


def machine() -> dict[str, str]:
    """Say on what it was measured, without the names of people or hosts."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "measured": datetime.now(UTC).date().isoformat(),
        "processor": model,
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def write_results(name: str, tables: list[Table], *, about: str = "") -> None:
    """Replace the tables with these titles in bench/results/<name>.json; tables of other titles stay.

    `about` says what exactly is compared, in a paragraph of the page.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    kept: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"tables": []}
    fresh = {table.title: asdict(table) for table in tables}
    merged = [fresh.pop(table["title"], table) for table in kept["tables"]]
    merged += fresh.values()
    said = {"about": about} if about else {}
    text = json.dumps({"machine": machine(), **said, "tables": merged}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", "utf-8")


def with_earlier_rows(name: str, table: Table) -> Table:
    """Return the table with the rows that an earlier run wrote for other values of the first column, in its order."""
    path = RESULTS / f"{name}.json"
    kept = json.loads(path.read_text("utf-8"))["tables"] if path.exists() else []
    earlier = [row for each in kept if each["title"] == table.title for row in each["rows"]]
    measured = {row[0] for row in table.rows}
    rows = [*table.rows, *(row for row in earlier if row[0] not in measured)]
    return replace(table, rows=sorted(rows, key=lambda row: int(row[0].replace(",", ""))))


def write_output(name: str, lines: list[str]) -> None:
    """Keep what a benchmark printed, unless it wrote its tables itself."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    if path.exists() and "tables" in json.loads(path.read_text("utf-8")):
        return
    path.write_text(json.dumps({"machine": machine(), "output": lines}, indent=1, ensure_ascii=False) + "\n", "utf-8")
