"""Draws the machines of the mesh from their transition tables; run as a script, it writes the page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from restante.core import lookup, store_quorum
from restante.core.directory import admission, download, routing_table
from restante.core.mailbox_poll import buckets, reading
from restante.core.replication import neighbours, offers, serving, sync_round
from restante.core.transitions import Table

MESH_PAGE = Path(__file__).parents[3] / "docs" / "state-machines" / "mesh.md"
MACHINES: Mapping[str, tuple[str, Table[Any]]] = {
    "A contact of the routing table": ("core/directory/routing_table.py", routing_table.TABLE),
    "A descriptor before it counts": ("core/directory/admission.py", admission.TABLE),
    "A download of the directory": ("core/directory/download.py", download.TABLE),
    "A lookup": ("core/lookup.py", lookup.TABLE),
    "An attempt to store": ("core/store_quorum.py", store_quorum.TABLE),
    "A time bucket of a recipient": ("core/mailbox_poll/buckets.py", buckets.TABLE),
    "One read of a bucket": ("core/mailbox_poll/reading.py", reading.TABLE),
    "A neighbour of a node": ("core/replication/neighbours.py", neighbours.TABLE),
    "A round of replication": ("core/replication/sync_round.py", sync_round.TABLE),
    "A closer node that is offered mail": ("core/replication/offers.py", offers.TABLE),
    "A node that serves": ("core/replication/serving.py", serving.TABLE),
}


def mesh_page() -> str:
    lines = [
        "# The machines of the mesh",
        "",
        "Generated from the transition tables in the modules. The code checks them at each step, and tests try every",
        "phase with every event. An event that is not listed raises and changes nothing. Events that leave the phase",
        "as it is are not drawn.",
    ]
    for name, (module, table) in MACHINES.items():
        arrows: dict[tuple[str, str], list[str]] = {}
        for phase, row in table.items():
            for event, following in row.items():
                for after in following - {phase}:
                    arrows.setdefault((str(phase), str(after)), []).append(event.__name__)
        drawn = [
            f"    {before} --> {after}: {', '.join(sorted(names))}" for (before, after), names in sorted(arrows.items())
        ]
        first = next(iter(table))
        lines += [
            "",
            f"## {name}",
            "",
            f"`src/restante/{module}`",
            "",
            "```mermaid",
            "stateDiagram-v2",
            f"    [*] --> {first}",
        ]
        lines += [*drawn, "```"]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    MESH_PAGE.write_text(mesh_page(), encoding="utf-8")
