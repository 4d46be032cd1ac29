"""`restante fleet backfill` and `restante fleet generate`: Spark jobs that write tables and synthetic journals."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from restante.cli.fleet.operator_key import PinnedKey, parse_pinned_key
from restante.cli.fleet.spark_jobs import require_spark, step_bars
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json
from restante.runtime.system import SystemClock
from restante.views.text_tables import table

Root = Annotated[str, typer.Option("--lake", metavar="PATH", help="Root of the lake: segments/ and tables/ are in it.")]
Master = Annotated[str, typer.Option("--master", metavar="URL", help="Spark master, such as spark://host:7077.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Share = typer.Option(min=0.0, max=1.0)
_DAYS = ["%Y-%m-%d"]


def _share(about: str) -> Any:
    return typer.Option(min=0.0, max=1.0, help=about)


def backfill(
    ctx: typer.Context,
    *,
    lake: Root,
    first_day: Annotated[
        datetime | None,
        typer.Option("--from", formats=_DAYS, help="First UTC day to write. Default: the first of all."),
    ] = None,
    last_day: Annotated[
        datetime | None, typer.Option("--to", formats=_DAYS, help="Last UTC day to write and to read.")
    ] = None,
    operator_key: PinnedKey = None,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Make all tables of the lake from all of its segments.

    Earlier days are read even where only later ones are written: what an arrival was depends on all before it. Doing
    it again writes the same tables again.
    """
    settings = inputs_of(ctx).load().settings
    with require_spark():
        from restante.fleet.jobs.backfill import FIRST_DAY, LAST_DAY, run_backfill
        from restante.fleet.lake.layout import Lake

    with step_bars(quiet=as_json) as tell:
        done = run_backfill(
            Lake(lake),
            settings,
            first_day=FIRST_DAY if first_day is None else first_day.date(),
            last_day=LAST_DAY if last_day is None else last_day.date(),
            master=master,
            now_ms=SystemClock().now_ms(),
            operator_key=parse_pinned_key(operator_key),
            tell=tell,
        )
    if as_json:
        print_json(asdict(done))
        return
    rows = [(name.replace("_", " "), f"{value:,}") for name, value in asdict(done).items() if name != "bad_files"]
    console().print(table("Backfilled", "what", "rows", rows=rows, right=("rows",)))
    if done.bad_files:
        files = [(file.name, file.reason) for file in done.bad_files]
        console().print(table("Files in quarantine", "file", "reason", rows=files))


def generate(
    *,
    lake: Root,
    messages: Annotated[int, typer.Option(min=1, help="How many messages were sent.")] = 100_000,
    sessions: Annotated[int, typer.Option(min=1, help="How many sessions they went through.")] = 1_000,
    clients: Annotated[int, typer.Option(min=1, help="How many clients.")] = 100,
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes.")] = 12,
    days: Annotated[int, typer.Option(min=1, max=92, help="How many days.")] = 21,
    duplicates_rate: Annotated[float, Share] = 0.01,
    reordered_rate: Annotated[float, Share] = 0.02,
    lost_rate: Annotated[float, Share] = 0.0005,
    collisions_rate: Annotated[float, Share] = 0.0,
    outages: Annotated[float, _share("Probability that a data centre is down for about an hour on a day.")] = 0.06,
    absences: Annotated[float, _share("Probability that a recipient is away for half an hour on a day.")] = 0.15,
    churn: Annotated[float, _share("Share of sessions that begin late, and that end early.")] = 0.2,
    skewed: Annotated[float, _share("Share of clients whose clocks are three days slow.")] = 0.0,
    liars: Annotated[float, _share("Share of nodes that acknowledge messages and do not store them.")] = 0.0,
    start: Annotated[datetime, typer.Option(formats=_DAYS, help="UTC day of the first message.")] = datetime(
        2026, 1, 1, tzinfo=UTC
    ),
    recipients_only: Annotated[
        bool, typer.Option("--recipients-only", help="Make only the journals of recipients.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same journals.")] = 7,
    master: Master = "local[*]",
) -> None:
    """Write the journals of a synthetic fleet as segments of a new lake.

    The fleet has days, nights and weekends, kinds and priorities, lognormal delays, clients that are away, and clocks
    that differ. Outages, losses, liars and other faults have the given rates.
    """
    with require_spark():
        from restante.fleet.jobs.generate import run_generate
        from restante.fleet.kernels.synthetic_fleet import Scenario
        from restante.fleet.lake.layout import Lake

    scenario = Scenario(
        messages=messages,
        sessions=sessions,
        clients=clients,
        nodes=nodes,
        days=days,
        duplicates=duplicates_rate,
        reordered=reordered_rate,
        lost=lost_rate,
        collisions=collisions_rate,
        outages=outages,
        absences=absences,
        churn=churn,
        skewed=skewed,
        liars=liars,
        start_ms=int(start.replace(tzinfo=UTC).timestamp() * 1_000),
        seed=seed,
    )
    with step_bars(quiet=False) as tell:
        run_generate(Lake(lake), scenario, only_arrivals=recipients_only, master=master, tell=tell)
    console().print(f"journals of {messages:,} messages are in {lake}")
