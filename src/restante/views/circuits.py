"""What people see of their client's circuits. Values in, tables out."""

from typing import Any

from rich.console import Group

from restante.views.text_tables import fields, table


def circuits_view(pool: dict[str, Any], last_failure: dict[str, Any] | None) -> Group:
    """Return one line a circuit, what building them took, and where the last message that was not stored failed."""
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
    failures = ", ".join(_failed(hop, count) for hop, count in sorted(pool["failures"].items())) or "none"
    median = "" if pool["build_median_ms"] is None else f", half of the last ones took {pool['build_median_ms']:,} ms"
    lines = [
        ("built", f"{pool['built']:,}{median}; a build may take {pool['build_timeout_ms']:,} ms"),
        ("failed builds", failures),
        ("gone silent", f"{pool['silent']:,}"),
    ]
    if last_failure is not None:
        ago_s = last_failure["age_ms"] / 1_000
        lines.append(("last failure", f"{last_failure['code']}, {ago_s:,.0f} s ago: {last_failure['text']}"))
    if not rows:
        return Group("No circuit stands now.\n", fields("Builds", lines))
    return Group(
        table("Circuits", "guard middle exit", "use", "streams", "age", "built in", rows=rows, right=right, whole=True),
        fields("Builds", lines),
    )


def _failed(hop: str, count: int) -> str:
    return f"{count:,} by time-out" if hop == "time-out" else f"{count:,} at the {hop}"
