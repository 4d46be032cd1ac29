"""`restante demo`: the whole product once, in about half a minute, with proof that nothing was lost."""

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
    "requests_lost": "sends lost on the way to the relay",
    "answers_lost": "answers of the relay lost on the way back",
    "puts_repeated": "sends that reached the relay twice",
    "blobs_repeated": "deliveries repeated",
    "blobs_late": "deliveries overtaken by the next one",
}


def demo(
    ctx: typer.Context,
    messages: Annotated[int, typer.Option(min=10, max=10_000, help="How many messages to send.")] = 300,
    seed: Annotated[int, typer.Option(help="Which faults the network has; the same seed, the same dice.")] = 7,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Keep databases and journal segments in this new directory."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Send messages through a bad network and a killed relay, then let Spark prove that none was lost.

    Starts two clients and a relay as processes of their own on loopback, loses and repeats some of what they send,
    kills the relay once with SIGKILL and starts it again. Afterwards a Spark job reads the journals of all three.
    Exit status 0 only if every message arrived once, in order, and the books balance. It runs with the default
    settings and the shortest retry delay, whatever is configured.
    """
    from restante.model.errors import ConfigurationInvalid

    inputs_of(ctx).load()
    if output is not None and output.exists() and any(output.iterdir() if output.is_dir() else [output]):
        raise ConfigurationInvalid(f"--output {output}: must be a new or empty directory")
    if output is not None:
        _play(output, messages=messages, seed=seed, as_json=as_json)
        return
    with tempfile.TemporaryDirectory(prefix="restante-demo-") as made:
        _play(Path(made), messages=messages, seed=seed, as_json=as_json)


def _play(home: Path, *, messages: int, seed: int, as_json: bool) -> None:
    import asyncio

    from restante.model.errors import EnvironmentUnsuitable
    from restante.runtime.system import SystemEntropy

    try:
        from restante.cli.demo.orchestrator import Outcome, perform
        from restante.fleet.jobs.conservation_report import run_report
        from restante.views.conservation_text import conservation_line, print_report
    except ImportError as missing:
        raise EnvironmentUnsuitable("the demo's report needs Spark: pip install 'restante[fleet]'") from missing

    out = Console(quiet=True) if as_json else console()
    out.print(f"[bold]alice → relay → bob[/bold], three processes on loopback, {messages:,} messages, seed {seed}\n")
    with _progress(out) as progress:
        arriving = progress.add_task("arriving", total=messages)
        outcome: Outcome = asyncio.run(
            perform(
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
    out.print(table("What went wrong on the way", "fault", "times", rows=rows, right=("times",)))
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
                "facts": report.events,
            }
        )
    if not proven:
        raise typer.Exit(EXIT_FAILURE)


def _progress(out: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=out
    )
