"""What people see of their client's circuits. Values in, tables out."""

from typing import Any

from rich.console import Group

from restante.views.text_tables import fields, table


def circuits_view(pool: dict[str, Any]) -> Group:
    """Return one line a circuit, and what building them took."""
    rows = [
        (
            " ".join(each["hops"]),
            each["use"],
            f"{each['streams']:,}",
            f"{each['age_ms'] / 1_000:,.0f} s",
            f"{each['build_ms']:,} ms",
        )
        for each in pool["circuits"]
    ]
    right = ("streams", "age", "built in")
    failures = ", ".join(f"{count:,} at the {hop}" for hop, count in sorted(pool["failures"].items())) or "none"
    median = "" if pool["build_median_ms"] is None else f", half of the last ones took {pool['build_median_ms']:,} ms"
    lines = [
        ("built", f"{pool['built']:,}{median}; a build may take {pool['build_timeout_ms']:,} ms"),
        ("failed builds", failures),
    ]
    return Group(
        table("Circuits", "guard middle exit", "use", "streams", "age", "built in", rows=rows, right=right),
        fields("Builds", lines),
    )
