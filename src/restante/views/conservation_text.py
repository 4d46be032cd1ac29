"""A conservation report as text: what failed, the balance in one line, missing messages and latencies as tables."""

from collections.abc import Iterator

from rich.console import Console, RenderableType

from restante.model.conservation_report import (
    ConservationReport,
    DayBalance,
    Latency,
    MissingEvents,
    UnaccountedMessage,
)
from restante.model.ids import show_message_id
from restante.views.text_tables import table

SPAN_NAMES = {"accepted_to_delivered": "accepted → receipt", "accepted_to_released": "accepted → read by app"}


def failed(balance: DayBalance) -> int:
    """Return how many messages ended without being delivered."""
    return balance.dead + balance.expired + balance.evicted


def outcome_line(balance: DayBalance) -> str:
    """Say in one sentence whether messages arrived. A balance of zero alone does not say that: failed ones count."""
    ends = ((balance.dead, "dead"), (balance.expired, "expired"), (balance.evicted, "evicted"))
    lost = ", ".join(f"{count:,} {end}" for count, end in ends if count)
    arrived = f"{balance.delivered:,} of {balance.accepted:,} accepted messages were delivered"
    stored = f" ({balance.stored_never_arrived:,} stored, never arrived)" if balance.stored_never_arrived else ""
    waiting = f", {balance.in_flight:,} are in flight" if balance.in_flight else ""
    return f"Not delivered: {lost}{stored}. {arrived}{waiting}." if lost else f"{arrived}{waiting}, none failed."


def conservation_line(balance: DayBalance) -> str:
    """The equation of SPEC 13.4 in one line."""
    return (
        f"accepted {balance.accepted:,} = delivered {balance.delivered:,} + expired {balance.expired:,}"
        f" + evicted {balance.evicted:,} + dead {balance.dead:,} + in flight {balance.in_flight:,},"
        f" unaccounted {balance.unaccounted:,}"
    )


def print_report(out: Console, report: ConservationReport) -> None:
    """Print the outcome first, then the balance: green if it holds, red if it does not."""
    out.print(outcome_line(report.total), style="bold red" if failed(report.total) else "green", soft_wrap=True)
    out.print()
    out.print("Conservation", style="bold")
    out.print(
        f"from {report.events:,} events in {report.segments} segments"
        f" ({report.duplicates:,} shipped twice, {report.quarantined_rows:,} in quarantine)",
        style="dim",
    )
    # Not wrapped or cut in a narrow terminal: scripts search for it.
    out.print(conservation_line(report.total), style="green" if report.balanced else "bold red", soft_wrap=True)
    out.print()
    for part in _tables(report):
        out.print(part)


def _tables(report: ConservationReport) -> Iterator[RenderableType]:
    if report.unaccounted:
        yield table("Unaccounted for", "message", "why", "last event", rows=map(_unaccounted_row, report.unaccounted))
    if report.missing_events:
        yield table(
            "Missing events", "writer", "numbers", "last event before", rows=map(_missing_row, report.missing_events)
        )
    if report.bad_files:
        yield table("Files that could not be read", "file", "why", rows=((f.name, f.reason) for f in report.bad_files))
    yield table(
        "Latency in ms",
        "from → to",
        "kind",
        "messages",
        "P50",
        "P90",
        "P99",
        "max",
        rows=map(_latency_row, report.latency),
        right=("messages", "P50", "P90", "P99", "max"),
        dense=True,
    )


def _unaccounted_row(missing: UnaccountedMessage) -> tuple[str, ...]:
    shown = "(names no message)" if missing.message_id is None else show_message_id(missing.message_id)
    return shown, missing.inconsistency, missing.last_event


def _missing_row(one: MissingEvents) -> tuple[str, ...]:
    return one.writer.hex()[:16], f"{one.missing_from}-{one.missing_to}", one.last_event or "(none)"


def _latency_row(row: Latency) -> tuple[str, ...]:
    kind = "all" if row.is_total else row.message_kind or "(unknown)"
    numbers = (row.p50_ms, row.p90_ms, row.p99_ms, row.max_ms)
    return SPAN_NAMES[row.span], kind, f"{row.messages:,}", *(f"{number:,.0f}" for number in numbers)
