"""A fleet report as one HTML page without scripts and external resources, readable without its plots.

Ids of messages, nodes and writers are shown in full, because the page is for the operator. A report contains no
address (SPEC 13.1).
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Final

from restante.model.conservation_report import HISTOGRAM_EDGES_MS
from restante.model.fleet_report import FleetReport, ServiceLevel
from restante.model.ids import show_message_id
from restante.views.conservation_text import SPAN_NAMES, conservation_line, outcome_line
from restante.views.svg_plots import Series, bars, lines

WORST_NODES: Final = 10
LISTED: Final = 50
HOURS_SHOWN: Final = 7 * 24
_ENDS: Final = (
    ("delivered", "e"),
    ("in_flight", "a"),
    ("expired", "f"),
    ("evicted", "c"),
    ("dead", "d"),
    ("unaccounted", "b"),
)


def html_page(report: FleetReport) -> str:
    """Return the page."""
    style = files(__package__).joinpath("fleet_html.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Restante fleet report</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(_sections(report))
        + "\n</main>\n</body>\n</html>\n"
    )


def _sections(report: FleetReport) -> Iterator[str]:
    conservation = report.conservation
    as_of = datetime.fromtimestamp(report.as_of_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M")
    shares = f"{conservation.duplicates:,} shipped twice, {conservation.quarantined_rows:,} in quarantine"
    yield f"<h1>Fleet report</h1><p class='dim'>as of {as_of} UTC, from {conservation.events:,} events in"
    yield f"{conservation.segments:,} segments ({shares}); times are UTC</p>"
    yield f'<p class="verdict{"" if report.sound else " bad"}">{escape(_verdict(report))}</p>'
    yield from _books(report)
    yield from _losses(report)
    yield from _delivery(report)
    yield from _latency(report)
    yield from _nodes(report)
    yield from _gaps(report)
    yield from _rest(report)


def _verdict(report: FleetReport) -> str:
    line = conservation_line(report.conservation.total)
    outcome = outcome_line(report.conservation.total)
    if report.sound:
        return f"{outcome} Every accepted message is accounted for: {line}."
    found = [
        (report.conservation.total.unaccounted, "messages unaccounted for"),
        (report.conservation.missing_event_count, "ranges of missing events"),
        (report.withheld_count, "messages withheld by nodes"),
        (len(report.conservation.bad_files), "files that could not be read"),
        (report.conservation.quarantined_rows, "rows in quarantine"),
    ]
    missing = ", ".join(f"{n:,} {what}" for n, what in found if n)
    return f"Not every message is accounted for: {missing}. {outcome} {line}."


def _books(report: FleetReport) -> Iterator[str]:
    days = report.conservation.days
    yield "<h2>Conservation by day of acceptance</h2>"
    labels = [str(day.day) for day in days]
    series = [
        Series(name=name.replace("_", " "), style=style, values=tuple(getattr(day, name) for day in days))
        for name, style in _ENDS
    ]
    if days:
        yield bars("What became of accepted messages", labels, series, unit="messages")
    names = ("accepted", "delivered", "expired", "evicted", "dead", "in_flight", "unaccounted")
    rows = [
        (str(day.day), *(f"{getattr(day, name):,}" for name in names), "yes" if day.is_balanced else "NO")
        for day in days
    ]
    heads = ("day", *(name.replace("_", " ") for name in names), "balanced")
    yield _table("Conservation", heads, rows, numbers=range(1, 8))


def _losses(report: FleetReport) -> Iterator[str]:
    conservation = report.conservation
    rows: Sequence[tuple[str, ...]]
    if conservation.unaccounted:
        rows = [
            (
                "(names no message)" if one.message_id is None else show_message_id(one.message_id),
                one.inconsistency,
                one.last_event,
            )
            for one in conservation.unaccounted
        ]
        yield _table("Unaccounted for", ("message", "why", "last event"), rows)
    if conservation.missing_events:
        rows = [
            (one.writer.hex(), f"{one.missing_from}-{one.missing_to}", one.last_event or "(none)")
            for one in conservation.missing_events
        ]
        yield _table("Events missing from journals", ("writer", "numbers", "last event before"), rows)
    if report.likely_affected:
        rows = [
            (show_message_id(one.message_id), one.state, f"{one.missing_from}-{one.missing_to}", one.writer.hex())
            for one in report.likely_affected
        ]
        heads = ("message", "state by what is left", "missing numbers", "writer")
        yield _table("Messages the missing events were probably about: they arrived", heads, rows)
    if report.withheld:
        rows = [
            (one.node.hex(), show_message_id(one.message_id), one.evidence.replace("_", " "), one.message_state)
            for one in report.withheld
        ]
        yield _table("Signed for and withheld", ("node", "message", "evidence", "state of the message"), rows)
    if conservation.bad_files:
        yield _table(
            "Files that could not be read", ("file", "why"), [(one.name, one.reason) for one in conservation.bad_files]
        )


def _delivery(report: FleetReport) -> Iterator[str]:
    hours = [level for level in report.levels if level.is_total][-HOURS_SHOWN:]
    if not hours:
        return
    labels = [_moment(level.hour_ms) for level in hours]
    yield "<h2>Delivery over time</h2>"
    yield bars(
        "Messages accepted each hour",
        labels,
        [
            Series(name="delivered", style="e", values=tuple(level.delivered for level in hours)),
            Series(name="not delivered", style="b", values=tuple(_undelivered(level) for level in hours)),
            Series(name="in flight", style="a", values=tuple(level.in_flight for level in hours)),
        ],
        unit="messages",
    )
    rates = tuple(None if level.delivery_rate is None else 100 * level.delivery_rate for level in hours)
    rate = Series(name="delivered of those that ended", style="e", values=rates)
    yield lines("Delivery rate", labels, [rate], unit="%", top=100.0)
    heads = ("kind", "priority", "accepted", "delivered", "in flight", "duplicates", "shown twice")
    yield _table("By kind and priority, all hours together", heads, _by_kind(report.levels), numbers=range(2, 7))


def _undelivered(level: ServiceLevel) -> int:
    return level.accepted - level.in_flight - level.delivered


def _by_kind(levels: Iterable[ServiceLevel]) -> list[tuple[str, ...]]:
    sums: dict[tuple[str, str], list[int]] = {}
    for level in levels:
        if level.is_total:
            continue
        key = (level.message_kind or "(unknown)", "" if level.priority is None else level.priority.name.lower())
        counts = (level.accepted, level.delivered, level.in_flight, level.duplicates, level.repeated_releases)
        sums[key] = [so_far + more for so_far, more in zip(sums.get(key, [0] * 5), counts, strict=True)]
    return [(*key, *(f"{number:,}" for number in sums[key])) for key in sorted(sums)]


def _latency(report: FleetReport) -> Iterator[str]:
    yield "<h2>Latency</h2>"
    counts = {bar.lower_bound_ms: bar.messages for bar in report.histogram if bar.lower_bound_ms is not None}
    if counts:
        low, high = (HISTOGRAM_EDGES_MS.index(edge) for edge in (min(counts), max(counts)))
        edges = HISTOGRAM_EDGES_MS[low : high + 1]
        values = tuple(counts.get(edge, 0) for edge in edges)
        series = [Series(name="", style="a", values=values)]
        yield bars("From acceptance to receipt", [_span(edge) for edge in edges], series, unit="messages")
    rows = [
        (
            SPAN_NAMES[row.span],
            "all" if row.is_total else row.message_kind or "(unknown)",
            *(f"{number:,.0f}" for number in (row.messages, row.p50_ms, row.p90_ms, row.p99_ms, row.max_ms)),
        )
        for row in report.conservation.latency
    ]
    heads = ("from → to", "kind", "messages", "P50 ms", "P90 ms", "P99 ms", "max ms")
    yield _table("Exact percentiles", heads, rows, numbers=range(2, 7))
    hours = [level for level in report.levels if level.is_total and level.p99_ms is not None][-HOURS_SHOWN:]
    if hours:
        yield lines(
            "Latency by hour of acceptance",
            [_moment(level.hour_ms) for level in hours],
            [
                Series(name="P50", style="a", values=tuple(level.p50_ms for level in hours)),
                Series(name="P99", style="b", values=tuple(level.p99_ms for level in hours)),
            ],
            unit="ms",
        )


def _nodes(report: FleetReport) -> Iterator[str]:
    yield "<h2>Worst nodes</h2>"
    if not report.nodes:
        yield "<p class='dim'>No node has said which it is.</p>"
        return
    worst = sorted(report.nodes, key=lambda node: (-node.withheld, node.score))[:WORST_NODES]
    rows = [
        (
            node.node.hex(),
            f"{node.score:.3f}",
            f"{100 * node.uptime:.1f} %",
            f"{node.bandwidth_bps:,}",
            f"{node.latency_ms:,.0f}",
            f"{node.withheld:,}",
        )
        for node in worst
    ]
    heads = ("node", "score", "uptime", "bit/s stored", "answer ms", "withheld")
    yield _table(f"{len(worst)} of {len(report.nodes):,}, those that withheld first", heads, rows, numbers=range(1, 6))


def _gaps(report: FleetReport) -> Iterator[str]:
    yield "<h2>Gaps</h2>"
    if not report.gaps:
        yield "<p class='dim'>No recipient gave up waiting for a message.</p>"
        return
    rows = [(_moment(gap.at_ms), gap.writer.hex(), f"{gap.first_sequence}-{gap.last_sequence}") for gap in report.gaps]
    yield _table(f"{report.gap_count:,} gaps that were skipped", ("when", "recipient's journal", "numbers"), rows)


def _rest(report: FleetReport) -> Iterator[str]:
    yield "<h2>Dead letters, security events, actions</h2>"
    letters = [(one.category, one.code or "", f"{one.letters:,}", f"{one.due:,}") for one in report.letters]
    yield _table("Dead letters", ("category", "why", "dead letters", "retry due"), letters, numbers=range(2, 4))
    yield _table(
        "Security events", ("what", "times"), [(c or "(none)", f"{n:,}") for c, n in report.security], numbers=(1,)
    )
    yield _table("Proposed actions", ("action", "times"), [(k, f"{n:,}") for k, n in report.actions], numbers=(1,))


def _table(title: str, heads: Iterable[str], rows: Sequence[tuple[str, ...]], *, numbers: Iterable[int] = ()) -> str:
    right = set(numbers)
    head = "".join(f'<th scope="col"{_class(place in right)}>{escape(name)}</th>' for place, name in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{_class(place in right)}>{_cell(cell)}</td>" for place, cell in enumerate(row)) + "</tr>"
        for row in rows[:LISTED]
    )
    more = f" ({len(rows) - LISTED:,} more are not shown)" if len(rows) > LISTED else "" if rows else ": none"
    return (
        f'<div class="scroll"><table><caption>{escape(title)}{more}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _class(is_number: bool) -> str:
    return ' class="n"' if is_number else ""


def _cell(text: str) -> str:
    return f"<code>{escape(text)}</code>" if len(text) >= 32 and " " not in text else escape(text)


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%m-%d %H:%M")


def _span(at_least_ms: int) -> str:
    return f"{at_least_ms} ms" if at_least_ms < 1_000 else f"{at_least_ms / 1_000:g} s"
