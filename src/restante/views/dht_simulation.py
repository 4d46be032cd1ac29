"""The result of a DHT simulation as tables for a terminal and as an HTML page with plots."""

from typing import Final

from rich.console import Console

from restante.model.dht_simulation import Availability, DhtSimulation, quantile
from restante.views.fleet_html import page_of
from restante.views.svg_plots import Scale, Series, bars, lines
from restante.views.text_tables import table

_STYLES: Final = {(3, True): "b", (5, True): "a", (3, False): "f", (5, False): "d"}
_SHOWN_HOURS: Final = (1, 24, 168, 720)


def print_simulation(out: Console, found: DhtSimulation) -> None:
    """Print rounds and requests of lookups, then the availability of copies."""
    out.print(_summary(found), soft_wrap=True)
    rows = [
        (name, *(f"{quantile(counts, share):,}" for share in (0.5, 0.9, 0.99, 1.0)))
        for name, counts in (("rounds", found.rounds), ("requests", found.requests))
    ]
    heads = ("lookup", "P50", "P90", "P99", "most")
    out.print(table("Lookups", *heads, rows=rows, right=heads[1:]))
    hours = [hour for hour in _SHOWN_HOURS if hour < len(found.availability[0].shares)]
    shares = [(_name(one), *(f"{one.shares[hour]:.3%}" for hour in hours)) for one in found.availability]
    names = [f"after {hour} h" for hour in hours]
    out.print(table(f"Available at {found.churn:.0%} churn an hour", "copies", *names, rows=shares, right=names))


def simulation_page(found: DhtSimulation) -> str:
    """Return one HTML page with plots of rounds and availability."""
    labels = [str(rounds) for rounds, _ in found.rounds]
    counts = tuple(float(count) for _, count in found.rounds)
    hours = [f"{hour} h" for hour in range(len(found.availability[0].shares))]
    series = [
        Series(
            name=_name(one), style=_STYLES[one.copies, one.is_repaired], values=tuple(100 * each for each in one.shares)
        )
        for one in found.availability
    ]
    return page_of(
        "Restante DHT simulation",
        [
            f"<h1>DHT simulation</h1><p>{_summary(found)}</p>",
            '<div class="plots">',
            bars("Rounds of a lookup", labels, [Series(name="", style="a", values=counts)], unit="lookups"),
            lines(
                "Messages with a copy left",
                hours,
                series,
                unit=f"%, {found.churn:.0%} of the nodes leave each hour",
                scale=Scale(low=0, high=100),
            ),
            "</div>",
        ],
    )


def _name(one: Availability) -> str:
    return f"{one.copies} copies, {'repaired each hour' if one.is_repaired else 'no repair'}"


def _summary(found: DhtSimulation) -> str:
    return (
        f"{found.lookups:,} lookups among {found.nodes:,} nodes, {found.dead:.0%} of them dead:"
        f" {found.found_closest / found.lookups:.2%} found the closest living node,"
        f" {found.found_all / found.lookups:.2%} all five closest."
    )
