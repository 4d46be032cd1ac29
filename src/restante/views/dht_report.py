"""The simulation of a DHT as tables for a terminal, and as one HTML page with plots."""

from html import escape
from importlib.resources import files

from rich.console import Console

from restante.model.dht_simulation import DhtReport
from restante.views.svg_plots import Series, bars
from restante.views.text_tables import table


def print_dht_report(out: Console, report: DhtReport) -> None:
    rows = [
        (f"{offline:.0%}", *(str(report.percentile(offline, share)) for share in (0.5, 0.99, 1.0)))
        for offline in report.offline_shares()
    ]
    heads = ("nodes that do not answer", "P50", "P99", "most")
    out.print(table(f"Rounds of a lookup among {report.nodes:,} nodes", *heads, rows=rows, right=heads[1:]))
    lost = [(str(one.copies), f"{one.lifetime_h:g} h", f"{one.share:.4%}") for one in report.losses]
    out.print(
        table("Keys lost in 30 days with hourly repair", "copies", "a node stays", "lost", rows=lost, right=("lost",))
    )


def dht_page(report: DhtReport) -> str:
    """Return one page without scripts."""
    style = files(__package__).joinpath("fleet_html.css").read_text(encoding="utf-8")
    most = max(one.rounds for one in report.rounds)
    labels = [str(rounds) for rounds in range(most + 1)]
    plots = []
    for offline in report.offline_shares():
        counts = {one.rounds: one.lookups for one in report.rounds if one.offline == offline}
        series = [Series(name="", style="a", values=tuple(counts.get(rounds, 0) for rounds in range(most + 1)))]
        plots.append(bars(f"Rounds of a lookup, {offline:.0%} of nodes do not answer", labels, series, unit="lookups"))
    for copies in sorted({one.copies for one in report.losses}):
        found = [one for one in report.losses if one.copies == copies]
        names = [f"{one.lifetime_h:g} h" for one in found]
        series = [Series(name="", style="b", values=tuple(100 * one.share for one in found))]
        plots.append(bars(f"Lost in 30 days with {copies} copies, by how long a node stays", names, series, unit="%"))
    title = f"A DHT of {report.nodes:,} nodes"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(plots)
        + "\n</main>\n</body>\n</html>\n"
    )
