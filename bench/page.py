"""Makes docs/benchmarks.md from the files in bench/results."""

import json
from pathlib import Path
from typing import Any, Final

from bench.results import RESULTS

PAGE: Final = Path(__file__).parents[1] / "docs" / "benchmarks.md"
NAMES: Final = {
    "end_to_end": "From `send` to the other application",
    "outbox": "The outbox against other durable queues",
    "relay": "A put that is answered when it is on disk",
    "mesh": "The mesh: stores and reads",
    "mesh_simulation": "The mesh, simulated",
    "onion": "Circuits: the work of a hop",
    "onion_mesh": "Circuits on node processes",
    "circuit_simulation": "Circuits, simulated",
    "crypto": "The ratchet and its primitives",
    "envelope": "Envelopes",
    "inbox": "Ordering and deduplication",
    "receive": "Receiving",
    "render": "Rendering for chat platforms",
    "fleet": "The Spark pipeline against its peers",
    "fleet_fresh": "The Spark pipeline: how fresh the tables are",
    "fleet_increment": "The Spark pipeline: a report after a day of new events",
    "fleet_store": "The Spark pipeline on an object store",
    "fleet_commits": "The Spark pipeline: a long life of commits",
}
"""The benchmarks in the order of the page, by module."""

HEAD: Final = """\
# Benchmarks

Written by `make bench` from `bench/results`; do not edit. Every ratio compares contenders that took turns in one run on
one machine; figures of two runs, or of two machines, are not comparable. `make bench` measures again;
`python -m bench relay` measures one part.
"""


def render_page(results: Path = RESULTS) -> str:
    """Return the page for the results in a folder; benchmarks without a result are left out."""
    parts = [HEAD]
    for name, title in NAMES.items():
        path = results / f"{name}.json"
        if not path.exists():
            continue
        content = json.loads(path.read_text("utf-8"))
        about = ", ".join(f"{key} {value}" for key, value in content["machine"].items())
        parts.append(f"## {title}\n\n`python -m bench.{name}`; {about}.\n")
        parts += [f"{content['about']}\n"] if content.get("about") else []
        parts += [_table(table) for table in content.get("tables", [])]
        if content.get("output"):
            parts.append("```text\n" + "\n".join(content["output"]) + "\n```\n")
    return "\n".join(parts)


def _table(table: dict[str, Any]) -> str:
    rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    lines = ["| " + " | ".join(cell.strip().replace("|", "\\|") for cell in row) + " |" for row in rows]
    text = f"### {table['title']}\n\n" + "\n".join(lines) + "\n"
    label, *values = table.get("plot") or [0]
    return text + "".join(_plot(table, label, value) for value in values)


def _plot(table: dict[str, Any], x: int, y: int) -> str:
    labels = ", ".join(f'"{row[x]}"' for row in table["rows"])
    values = ", ".join(row[y].replace(",", "") for row in table["rows"])
    return f"""
```mermaid
xychart-beta
  title "{table["columns"][y]} by {table["columns"][x]}"
  x-axis [{labels}]
  y-axis "{table["columns"][y]}"
  bar [{values}]
```
"""


def write_page() -> None:
    PAGE.write_text(render_page(), "utf-8")


if __name__ == "__main__":
    write_page()
