"""A fleet report as tables for a terminal and as JSON."""

from dataclasses import asdict
from typing import Any, Final

from rich.console import Console, RenderableType

from restante.model.conservation_report import ReadFrom
from restante.model.fleet_report import FleetReport, WithheldMessage
from restante.model.ids import NodeId, show_message_id
from restante.model.provenance import Certainty, Provenance
from restante.model.service_targets import targets_of
from restante.views.conservation_text import conservation_line, failed, print_report
from restante.views.formatting import moment
from restante.views.text_tables import table

DAY_MS: Final = 86_400_000
SHOWN: Final = 20
SHOWN_OF_A_NODE: Final = 3
READ_FROM: Final = {
    ReadFrom.STREAM: "what the stream knows",
    ReadFrom.TABLES: "the tables of a backfill of the same segments",
    ReadFrom.SEGMENTS: "the segments",
}


def print_fleet_report(out: Console, report: FleetReport) -> None:
    """Print what makes the exit status 1, then the conservation report, losses and withheld messages, and the rest."""
    if not report.sound:
        out.print(found_line(report), style="bold red", soft_wrap=True)
    print_report(out, report.conservation)
    out.print(f"read from {READ_FROM[report.read_from]}", style="dim")
    _print_provenance(out, report.provenance)
    out.print(_targets_table(report))
    if report.likely_affected:
        rows = [
            (show_message_id(one.message_id), one.state.value, f"{one.missing_from}-{one.missing_to}")
            for one in report.likely_affected[:SHOWN]
        ]
        out.print(table("Probably what is missing: they arrived", "message", "state", "missing numbers", rows=rows))
    _print_withheld(out, report)
    for clock in report.skewed_clocks[:SHOWN]:
        days = clock.offset_ms / DAY_MS
        out.print(f"clock off by {days:+,.1f} days: writer {clock.writer.hex()}", style="bold red", soft_wrap=True)
    if report.gap_count:
        out.print(f"{report.gap_count:,} gaps were skipped by recipients\n")
    _print_counts(out, report)


def found_line(report: FleetReport) -> str:
    """Say in one sentence what is wrong in a report that is not sound."""
    found = [
        (report.conservation.total.unaccounted, "messages unaccounted for"),
        (report.conservation.missing_event_count, "ranges of missing events"),
        (report.withheld_count, "messages withheld by nodes"),
        (len(report.conservation.bad_files), "files that could not be read"),
        (report.conservation.quarantined_rows, "rows in quarantine"),
        (len(report.provenance.missing), "missing segments"),
        (len(report.provenance.contested), "writers that two enrolled keys claim"),
    ]
    return f"Found: {', '.join(f'{n:,} {what}' for n, what in found if n)}."


def _print_withheld(out: Console, report: FleetReport) -> None:
    """Name each node that withheld messages, with the first of them. No line is broken: ids are there to be copied."""
    by_node: dict[tuple[NodeId, Certainty], list[WithheldMessage]] = {}
    for one in report.withheld:
        by_node.setdefault((one.node, one.certainty), []).append(one)
    for (node, certainty), withheld in list(by_node.items())[:SHOWN]:
        one_or_more = "1 message" if len(withheld) == 1 else f"{len(withheld):,} messages"
        text = f"withheld: node {node.hex()} signed for {one_or_more}, missing in a list that it signed later"
        out.print(f"{text} ({certainty.value})", style="bold red", soft_wrap=True)
        for one in withheld[:SHOWN_OF_A_NODE]:
            times = f"stored {moment(one.stored_at_ms)}, not listed {moment(one.absent_at_ms)}"
            out.print(f"  message {show_message_id(one.message_id)} {times}", style="red", soft_wrap=True)
        if len(withheld) > SHOWN_OF_A_NODE:
            out.print(f"  and {len(withheld) - SHOWN_OF_A_NODE:,} more")
    if report.withheld_count > len(report.withheld):
        out.print(f"{report.withheld_count:,} messages were withheld in all")
    if report.withheld:
        out.print("All of them: --json or --html\n", style="dim")


def provenance_line(provenance: Provenance) -> str:
    """Say in one sentence how sure the report is."""
    total = provenance.verified + provenance.unverified
    match provenance.certainty:
        case Certainty.VERIFIED:
            return f"Verified: enrolled keys signed all {total:,} segments."
        case Certainty.PARTLY_VERIFIED:
            return (
                f"Partly verified: enrolled keys signed {provenance.verified:,} of {total:,} segments;"
                " the others are shown and lead to no action."
            )
    return f"Unverified: no enrolled key signed any of the {total:,} segments; they are shown and lead to no action."


def _print_provenance(out: Console, provenance: Provenance) -> None:
    out.print(provenance_line(provenance), style="dim", soft_wrap=True)
    for one in provenance.missing[:SHOWN]:
        out.print(
            f"missing segment: writer {one.writer} shipped one before {one.before}", style="bold red", soft_wrap=True
        )
    for writer in provenance.contested[:SHOWN]:
        out.print(f"two enrolled keys signed segments of writer {writer}", style="bold red", soft_wrap=True)
    out.print()


def _targets_table(report: FleetReport) -> RenderableType:
    rows = [
        (one.name, one.found, one.wanted, "no data" if one.is_met is None else "met" if one.is_met else "MISSED")
        for one in targets_of(report)
    ]
    return table("Targets", "target", "found", "wanted", "", rows=rows)


def _print_counts(out: Console, report: FleetReport) -> None:
    if report.nodes:
        nodes = [
            (
                one.node.hex()[:16],
                f"{one.score:.3f}",
                f"{one.uptime:.3f}",
                f"{one.latency_ms:,.0f}",
                f"{one.withheld:,}",
            )
            for one in report.nodes[:SHOWN]
        ]
        heads = ("node", "score", "uptime", "answer ms", "withheld")
        out.print(table("Worst nodes", *heads, rows=nodes, right=heads[1:]))
    if report.letters:
        letters = [(one.category.value, one.code or "", f"{one.letters:,}", f"{one.due:,}") for one in report.letters]
        out.print(table("Dead letters", "category", "why", "dead letters", "retry due", rows=letters))
    if report.security:
        out.print(table("Security events", "what", "times", rows=[(what, f"{n:,}") for what, n in report.security]))
    if report.actions:
        out.print(table("Proposed actions", "action", "times", rows=[(k.value, f"{n:,}") for k, n in report.actions]))


def report_data(report: FleetReport) -> dict[str, Any]:
    """Return the report for JSON."""
    conservation = report.conservation
    return {
        "sound": report.sound,
        "balanced": conservation.balanced,
        "failed": failed(conservation.total),
        "complete": conservation.complete,
        "certainty": report.provenance.certainty.value,
        "segments": {"verified": report.provenance.verified, "unverified": report.provenance.unverified},
        "missing_segments": [asdict(one) for one in report.provenance.missing],
        "contested_writers": list(report.provenance.contested),
        "targets": [asdict(one) for one in targets_of(report)],
        "conservation": conservation_line(conservation.total),
        "events": conservation.events,
        "read_from": report.read_from.value,
        "unaccounted": [
            {
                "message_id": None if one.message_id is None else show_message_id(one.message_id),
                "why": one.inconsistency.value,
            }
            for one in conservation.unaccounted
        ],
        "missing_events": [
            {"writer": one.writer.hex(), "from": one.missing_from, "to": one.missing_to}
            for one in conservation.missing_events
        ],
        "likely_affected": [show_message_id(one.message_id) for one in report.likely_affected],
        "withheld": [
            {
                "node": one.node.hex(),
                "message_id": show_message_id(one.message_id),
                "stored_at_ms": one.stored_at_ms,
                "absent_at_ms": one.absent_at_ms,
                "certainty": one.certainty.value,
            }
            for one in report.withheld
        ],
        "rejected_files": [{"name": one.name, "reason": one.reason} for one in conservation.bad_files],
        "quarantine": [asdict(one) for one in conservation.quarantine],
        "skewed_clocks": [{**asdict(one), "writer": one.writer.hex()} for one in report.skewed_clocks],
        "days": [{**asdict(one), "day": str(one.day)} for one in conservation.days],
        "latency": [asdict(one) for one in conservation.latency],
        "nodes": [{**asdict(one), "node": one.node.hex()} for one in report.nodes],
        "dead_letters": [asdict(one) for one in report.letters],
        "security": dict(report.security),
        "gaps": report.gap_count,
        "actions": {kind.value: count for kind, count in report.actions},
    }
