"""`restante fleet simulate`: behaviour at sizes that no test can run."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.fleet.batch_jobs import AsJson, Master
from restante.cli.fleet.spark_jobs import require_spark, step_bars
from restante.cli.fleet.text_files import write_text_file
from restante.cli.terminal import console, print_json

app = typer.Typer(name="simulate", help="Simulate large networks on Spark.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `dht` a command of its own: typer runs a single command without its name."""


@app.command()
def dht(
    *,
    nodes: Annotated[int, typer.Option(min=2, max=50_000_000, help="How many nodes.")] = 1_000_000,
    lookups: Annotated[int, typer.Option(min=1, help="How many lookups.")] = 10_000,
    dead: Annotated[float, typer.Option(min=0.0, max=0.9, help="Share of nodes that do not answer.")] = 0.1,
    churn: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of nodes that leave in an hour.")] = 0.2,
    blobs: Annotated[int, typer.Option(min=1, help="How many messages are stored.")] = 200_000,
    hours: Annotated[int, typer.Option(min=1, max=720, help="For how many hours.")] = 168,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write a page with plots.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same result.")] = 7,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Count rounds of lookups in a large DHT, and how long 3 and 5 copies of a message last under churn.

    Lookups follow the rules of the real ones. Copies are repaired each hour or never; real nodes repair within minutes.
    """
    with require_spark():
        from restante.fleet.jobs.simulate_dht import DhtScenario, run_simulation
    from restante.views.dht_simulation import print_simulation, simulation_page

    scenario = DhtScenario(nodes=nodes, lookups=lookups, dead=dead, churn=churn, blobs=blobs, hours=hours, seed=seed)
    with step_bars(quiet=as_json) as tell:
        found = run_simulation(scenario, master=master, tell=tell)
    if html is not None:
        write_text_file(simulation_page(found), html)
    if as_json:
        print_json(asdict(found))
    else:
        print_simulation(console(), found)
