"""`restante demo`: run the whole system for half a minute and check that no message was lost."""

import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json
from restante.views.text_tables import table

FAULT_NAMES: Final = {
    "requests_lost": "puts lost before they reached the relay",
    "answers_lost": "answers of the relay lost",
    "puts_repeated": "puts that reached the relay twice",
    "blobs_repeated": "deliveries repeated",
    "blobs_late": "deliveries delayed behind the next one",
}


def demo(
    ctx: typer.Context,
    messages: Annotated[int, typer.Option(min=10, max=10_000, help="How many messages to send.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of the network's faults; the same seed gives the same faults.")] = 7,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Keep databases and journal segments in this new directory."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Send messages over a lossy network while the relay is killed, then check with Spark that none was lost.

    The demo starts two clients and a relay as processes on loopback. It loses and repeats some of their frames, kills
    the relay once with SIGKILL and starts it again. Then a Spark job reads the journals of all three. It uses the
    default settings with the shortest retry delay, and ignores the configuration.

    Exit status 0 only if every message arrived once, in order, and every one is accounted for.
    """
    from restante.model.errors import ConfigurationInvalid

    inputs_of(ctx).load()
    if output is not None and output.exists() and any(output.iterdir() if output.is_dir() else [output]):
        raise ConfigurationInvalid(f"--output {output}: must be a new or empty directory")
    if output is not None:
        _run(output, messages=messages, seed=seed, as_json=as_json)
        return
    with tempfile.TemporaryDirectory(prefix="restante-demo-") as made:
        _run(Path(made), messages=messages, seed=seed, as_json=as_json)


def _run(home: Path, *, messages: int, seed: int, as_json: bool) -> None:
    import asyncio

    from restante.model.errors import EnvironmentUnsuitable
    from restante.runtime.system import SystemEntropy

    try:
        from restante.cli.demo.orchestrator import Outcome, run_demo
        from restante.fleet.jobs.conservation_report import run_report
        from restante.views.conservation_text import conservation_line, print_report
    except ImportError as missing:
        raise EnvironmentUnsuitable("the demo needs Spark: pip install 'restante[fleet]'") from missing

    out = Console(quiet=True) if as_json else console()
    out.print(f"[bold]alice → relay → bob[/bold], three processes on loopback, {messages:,} messages, seed {seed}\n")
    with _progress(out) as progress:
        arriving = progress.add_task("arriving", total=messages)
        outcome: Outcome = asyncio.run(
            run_demo(
                home,
                messages=messages,
                seed=seed,
                entropy=SystemEntropy(),
                on_received=lambda count: progress.update(arriving, completed=count),
            )
        )
    rows = [(name, f"{outcome.faults[key]:,}") for key, name in FAULT_NAMES.items()]
    rows.append(("relay killed with SIGKILL and restarted", str(outcome.relay_kills)))
    out.print()
    out.print(table("Injected faults", "fault", "times", rows=rows, right=("times",)))
    as_sent = "each once, in the order sent" if outcome.in_order_once_each else "NOT as they were sent"
    out.print(f"[bold]bob's application[/bold] got {outcome.received:,} messages: {as_sent}\n")
    with out.status("Spark reads the journals of all three"):
        report = run_report(outcome.segments)
    print_report(out, report)
    proven = report.balanced and report.complete and outcome.in_order_once_each
    if as_json:
        print_json(
            {
                "proven": proven,
                "accepted": outcome.accepted,
                "received": outcome.received,
                "in_order_once_each": outcome.in_order_once_each,
                "relay_kills": outcome.relay_kills,
                "faults": outcome.faults,
                "conservation": conservation_line(report.total),
                "unaccounted": report.total.unaccounted,
                "events": report.events,
            }
        )
    if not proven:
        raise typer.Exit(EXIT_FAILURE)


def _progress(out: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=out
    )
