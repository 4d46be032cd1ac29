"""`restante fleet simulate`: what does not fit on one machine, by simulation."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.fleet.batch_jobs import AsJson, Master
from restante.cli.fleet.spark_jobs import require_spark
from restante.cli.fleet.text_files import write_text_file
from restante.cli.terminal import console, print_json

app = typer.Typer(name="simulate", help="Simulate a network larger than any test.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Simulate a network larger than any test."""


@app.command()
def dht(
    *,
    nodes: Annotated[int, typer.Option(min=2, max=20_000_000, help="Nodes of the DHT.")] = 1_000_000,
    lookups: Annotated[int, typer.Option(min=1, help="Lookups for each share of nodes that do not answer.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same result.")] = 7,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write one page with plots.")] = None,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Count the rounds of lookups, and the keys lost with 3 and 5 copies while nodes come and go."""
    with require_spark():
        from restante.fleet.jobs.simulate_dht import DhtScenario, run_simulation
    from restante.views.dht_report import dht_page, print_dht_report

    report = run_simulation(DhtScenario(nodes=nodes, lookups=lookups, seed=seed), master=master)
    if html is not None:
        write_text_file(dht_page(report), html)
    if as_json:
        print_json(asdict(report))
    else:
        print_dht_report(console(), report)
