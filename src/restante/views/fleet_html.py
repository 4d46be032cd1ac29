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
from restante.model.error_codes import Code
from restante.model.fleet_report import FleetReport, ServiceLevel
from restante.model.ids import show_message_id
from restante.model.service_targets import DELIVERY_RATE_TARGET, P50_TARGET_MS, P99_TARGET_MS, targets_of
from restante.views.conservation_text import SPAN_NAMES, conservation_line, outcome_line
from restante.views.fleet_text import found_line, provenance_line
from restante.views.formatting import moment
from restante.views.svg_heat_map import heat_map
from restante.views.svg_plots import Scale, Series, Target, bars, lines, log_scale, rows_of_bars

WORST_NODES: Final = 10
LISTED: Final = 50
OPEN_ROWS: Final = 10
"""A longer table is closed until it is clicked."""
DAYS_SHOWN: Final = 28
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_ENDS: Final = (
    ("delivered", "a"),
    ("in_flight", "d"),
    ("expired", "f"),
    ("evicted", "c"),
    ("dead", "b"),
    ("unaccounted", "g"),
)
_P99_EDGES_MS: Final = (1_000, 3_000, P99_TARGET_MS, 60_000, 600_000)
_P99_NAMES: Final = ("≤ 1 s", "≤ 3 s", "≤ 10 s, the target", "≤ 1 min", "≤ 10 min", "longer")


def html_page(report: FleetReport) -> str:
    """Return the page of a fleet report."""
    return page_of("Restante fleet report", _sections(report))


def page_of(title: str, sections: Iterable[str]) -> str:
    """Return a page with our style sheet around sections that are HTML already."""
    style = files(__package__).joinpath("fleet_html.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(sections)
        + "\n</main>\n</body>\n</html>\n"
    )


def _sections(report: FleetReport) -> Iterator[str]:
    conservation = report.conservation
    as_of = datetime.fromtimestamp(report.as_of_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M")
    shares = f"{conservation.duplicates:,} shipped twice, {conservation.quarantined_rows:,} in quarantine"
    yield f"<h1>Fleet report</h1><p class='dim'>as of {as_of} UTC, from {conservation.events:,} events in"
    yield f"{conservation.segments:,} segments ({shares}); times are UTC</p>"
    yield f'<p class="verdict{"" if report.sound else " bad"}">{escape(_verdict(report))}</p>'
    yield f"<p class='dim'>{escape(provenance_line(report.provenance))}</p>"
    yield from _targets(report)
    yield from _over_time(report)
    yield from _heat_maps(report)
    yield from _losses(report)
    yield from _dead_letters(report)
    yield from _nodes(report)
    yield from _gaps(report)
    yield from _conservation(report)
    yield from _kinds(report)
    yield from _rest(report)


def _verdict(report: FleetReport) -> str:
    line = conservation_line(report.conservation.total)
    outcome = outcome_line(report.conservation.total)
    if report.sound:
        return f"{outcome} Every accepted message is accounted for: {line}."
    return f"{found_line(report)} {outcome} {line}."


def _targets(report: FleetReport) -> Iterator[str]:
    yield '<h2>Targets</h2><ul class="targets">'
    for one in targets_of(report):
        state = {True: "met", False: "missed", None: "unknown"}[one.is_met]
        word = {"met": "✓ met", "missed": "✗ missed", "unknown": "not measured"}[state]
        yield (
            f'<li class="{state}"><span>{escape(one.name)}</span><b>{escape(one.found or "no data")}</b>'
            f"<small>target: {escape(one.wanted)}</small><em>{word}</em></li>"
        )
    yield "</ul>"


def _over_time(report: FleetReport) -> Iterator[str]:
    hours = _hours(report)
    if not hours:
        return
    labels = [_moment(at_ms) for at_ms, _ in hours]
    p50, p99 = (tuple(None if level is None else getattr(level, name) for _, level in hours) for name in _PERCENTILES)
    rates = tuple(
        None if level is None or level.delivery_rate is None else 100 * level.delivery_rate for _, level in hours
    )
    lowest = min([100 * DELIVERY_RATE_TARGET, *(rate for rate in rates if rate is not None)])
    yield '<h2>Over time</h2><div class="plots">'
    yield lines(
        "Delivery rate",
        labels,
        [Series(name="delivered of those that ended", style="a", values=rates)],
        unit="% of each hour",
        scale=Scale(low=_floor_of_rates(lowest), high=100.0),
        targets=[Target(name="target", value=100 * DELIVERY_RATE_TARGET)],
    )
    yield lines(
        "From acceptance to receipt",
        labels,
        [Series(name="P50", style="a", values=p50), Series(name="P99", style="b", values=p99)],
        unit="by hour of acceptance",
        show=_span,
        scale=log_scale([*p50, *p99], low=P50_TARGET_MS / 10, high=P99_TARGET_MS),
        targets=[Target(name="target P50", value=P50_TARGET_MS), Target(name="target P99", value=P99_TARGET_MS)],
    )
    yield "</div>"


_PERCENTILES: Final = ("p50_ms", "p99_ms")


def _hours(report: FleetReport) -> list[tuple[int, ServiceLevel | None]]:
    """Return all hours of the last weeks. Hours that only a clock far ahead can have written are left out."""
    known = {level.hour_ms: level for level in report.levels if level.is_total}
    possible = [at_ms for at_ms in known if at_ms <= report.as_of_ms + DAY_MS]
    if not possible:
        return []
    last = max(possible)
    first = max(min(possible), last - DAYS_SHOWN * DAY_MS + HOUR_MS)
    return [(at_ms, known.get(at_ms)) for at_ms in range(first, last + 1, HOUR_MS)]


def _floor_of_rates(lowest: float) -> float:
    return next((floor for floor in (99.5, 99.0, 98.0, 96.0, 92.0, 80.0, 60.0) if lowest >= floor), 0.0)


def _heat_maps(report: FleetReport) -> Iterator[str]:
    hours = [(at_ms, level) for at_ms, level in _hours(report) if level is not None]
    if not hours:
        return
    accepted = {at_ms: level.accepted for at_ms, level in hours}
    slowest = {at_ms: level.p99_ms for at_ms, level in hours if level.p99_ms is not None}
    most = max(accepted.values())
    edges = [most * part / 6 for part in range(1, 6)]
    names = [f"≤ {edge:,.0f}" for edge in (*edges, most)]
    yield '<h2>Hours</h2><div class="plots">'
    yield heat_map("Messages accepted", accepted, edges=edges, names=names, style="h", unit="messages")
    yield heat_map("P99 to receipt", slowest, edges=_P99_EDGES_MS, names=_P99_NAMES, style="t", unit="ms")
    yield "</div>"


def _conservation(report: FleetReport) -> Iterator[str]:
    days = report.conservation.days
    yield "<h2>Conservation by day of acceptance</h2>"
    labels = [f"{day.day:%m-%d}" if day.day else "" for day in days]
    series = [
        Series(name=name.replace("_", " "), style=style, values=tuple(getattr(day, name) for day in days))
        for name, style in _ENDS
    ]
    yield '<div class="plots">'
    if days:
        yield bars("Accepted messages", labels, series, unit="by what became of them")
    yield _histogram(report)
    yield "</div>"
    names = ("accepted", "delivered", "expired", "evicted", "dead", "in_flight", "unaccounted")
    rows = [
        (str(day.day), *(f"{getattr(day, name):,}" for name in names), "yes" if day.is_balanced else "NO")
        for day in days
    ]
    heads = ("day", *(name.replace("_", " ") for name in names), "balanced")
    yield _table("Conservation", heads, rows, numbers=range(1, 8))


def _histogram(report: FleetReport) -> str:
    counts = {bar.lower_bound_ms: bar.messages for bar in report.histogram if bar.lower_bound_ms is not None}
    if not counts:
        return ""
    low, high = (HISTOGRAM_EDGES_MS.index(edge) for edge in (min(counts), max(counts)))
    edges = HISTOGRAM_EDGES_MS[low : high + 1]
    series = [Series(name="", style="a", values=tuple(counts.get(edge, 0) for edge in edges))]
    return bars("From acceptance to receipt", [_span(edge) for edge in edges], series, unit="messages")


def _losses(report: FleetReport) -> Iterator[str]:
    conservation = report.conservation
    rows: Sequence[tuple[str, ...]]
    if not report.sound:
        yield "<h2>What was found</h2>"
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
    if report.provenance.missing:
        rows = [(one.writer, one.before) for one in report.provenance.missing]
        yield _table("Missing segments", ("writer", "shipped before"), rows)
    if report.provenance.contested:
        rows = [(writer,) for writer in report.provenance.contested]
        yield _table("Writers that two enrolled keys claim", ("writer",), rows)
    if report.withheld:
        rows = [
            (
                one.node.hex(),
                show_message_id(one.message_id),
                moment(one.stored_at_ms),
                moment(one.absent_at_ms),
                one.certainty,
            )
            for one in report.withheld
        ]
        held_heads = ("node", "message", "stored", "not listed", "how sure")
        yield _table("Signed for and withheld", held_heads, rows)
    if conservation.bad_files:
        yield _table(
            "Files that could not be read", ("file", "why"), [(one.name, one.reason) for one in conservation.bad_files]
        )


def _kinds(report: FleetReport) -> Iterator[str]:
    yield "<h2>Kinds and priorities</h2>"
    heads = ("kind", "priority", "accepted", "delivered", "in flight", "duplicates", "shown twice")
    yield _table("All hours together", heads, _by_kind(report.levels), numbers=range(2, 7))
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


def _by_kind(levels: Iterable[ServiceLevel]) -> list[tuple[str, ...]]:
    sums: dict[tuple[str, str], list[int]] = {}
    for level in levels:
        if level.is_total:
            continue
        key = (level.message_kind or "(unknown)", "" if level.priority is None else level.priority.name.lower())
        counts = (level.accepted, level.delivered, level.in_flight, level.duplicates, level.repeated_releases)
        sums[key] = [so_far + more for so_far, more in zip(sums.get(key, [0] * 5), counts, strict=True)]
    return [(*key, *(f"{number:,}" for number in sums[key])) for key in sorted(sums)]


def _dead_letters(report: FleetReport) -> Iterator[str]:
    yield "<h2>Dead letters by cause</h2>"
    if not report.letters:
        yield "<p class='dim'>There are none.</p>"
        return
    by_cause: dict[str, int] = {}
    for one in report.letters:
        by_cause[_cause(one.code)] = by_cause.get(_cause(one.code), 0) + one.letters
    ranked = sorted(by_cause.items(), key=lambda pair: (-pair[1], pair[0]))
    letters = [(one.category, _cause(one.code), f"{one.letters:,}", f"{one.due:,}") for one in report.letters]
    heads = ("category", "cause", "dead letters", "retry due")
    yield '<div class="plots">'
    yield rows_of_bars("Dead letters", ranked, unit="messages", style="b")
    yield _table("By category", heads, letters, numbers=range(2, 4))
    yield "</div>"


def _cause(code: str | None) -> str:
    """Return the code with its meaning, where it is one of ours."""
    if code is None:
        return "(no code)"
    names = {each.value: each.name for each in Code}
    return f"{code} {names[code].lower().replace('_', ' ')}" if code in names else code


def _nodes(report: FleetReport) -> Iterator[str]:
    yield "<h2>Nodes</h2>"
    if not report.nodes:
        yield "<p class='dim'>No node has journaled its id.</p>"
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
    yield _table(
        f"The worst {len(worst)} of {len(report.nodes):,}, those that withheld first", heads, rows, numbers=range(1, 6)
    )


def _gaps(report: FleetReport) -> Iterator[str]:
    yield "<h2>Gaps</h2>"
    if not report.gaps:
        yield "<p class='dim'>No recipient gave up waiting for a message.</p>"
        return
    rows = [(_moment(gap.at_ms), gap.writer.hex(), f"{gap.first_sequence}-{gap.last_sequence}") for gap in report.gaps]
    yield _table(f"{report.gap_count:,} gaps that were skipped", ("when", "recipient's journal", "numbers"), rows)


def _rest(report: FleetReport) -> Iterator[str]:
    yield "<h2>Clocks, security events, actions</h2>"
    clocks = [
        (one.writer.hex(), f"{one.offset_ms / DAY_MS:+,.1f}", f"{one.messages:,}") for one in report.skewed_clocks
    ]
    yield _table("Clocks that are off", ("writer", "days", "messages"), clocks, numbers=range(1, 3))
    yield _table("Security events", ("what", "times"), [(what, f"{n:,}") for what, n in report.security], numbers=(1,))
    yield _table("Proposed actions", ("action", "times"), [(k, f"{n:,}") for k, n in report.actions], numbers=(1,))


def _table(title: str, heads: Iterable[str], rows: Sequence[tuple[str, ...]], *, numbers: Iterable[int] = ()) -> str:
    """Return a table. On a phone each row is a list of names and values: the style sheet shows `data-head`."""
    names, right = [escape(head) for head in heads], set(numbers)
    head = "".join(f'<th scope="col"{_class(place in right)}>{name}</th>' for place, name in enumerate(names))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-head="{names[place]}"{_class(place in right)}>{_cell(cell)}</td>'
            for place, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows[:LISTED]
    )
    more = f" ({len(rows) - LISTED:,} more are not shown)" if len(rows) > LISTED else "" if rows else ": none"
    inside = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>" if rows else ""
    if len(rows) > OPEN_ROWS:
        summary = f"{escape(title)}: {len(rows):,} rows{more}"
        return f"<details><summary>{summary}</summary><table>{inside}</table></details>"
    return f"<table><caption>{escape(title)}{more}</caption>{inside}</table>"


def _class(is_number: bool) -> str:
    return ' class="n"' if is_number else ""


def _cell(text: str) -> str:
    return f"<code>{escape(text)}</code>" if len(text) >= 32 and " " not in text else escape(text)


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%m-%d %H:%M")


def _span(milliseconds: float) -> str:
    """Format a time with a no-break space."""
    if milliseconds < 1_000:
        return f"{milliseconds:.3g}\N{NARROW NO-BREAK SPACE}ms"
    return f"{float(f'{milliseconds / 1_000:.3g}'):,g}\N{NARROW NO-BREAK SPACE}s"
