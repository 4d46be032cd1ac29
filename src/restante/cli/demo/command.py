"""`restante demo`: run the whole system for half a minute and check that no message was lost."""

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json
from restante.views.text_tables import fields, table

if TYPE_CHECKING:
    from restante.cli.demo.orchestrator import LoopOutcome, Outcome

LOOP_MESSAGES: Final = 2_000
FAULT_NAMES: Final = {
    "requests_lost": "puts lost before they reached the relay",
    "answers_lost": "answers of the relay lost",
    "puts_repeated": "puts that reached the relay twice",
    "blobs_repeated": "deliveries repeated",
    "blobs_late": "deliveries delayed behind the next one",
}


def demo(
    ctx: typer.Context,
    messages: Annotated[
        int, typer.Option(min=10, max=10_000, help="How many messages to send over the lossy network.")
    ] = 300,
    seed: Annotated[int, typer.Option(help="Seed of the network's faults; the same seed gives the same faults.")] = 7,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Keep databases and journal segments in this new directory."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Send messages while the relay is killed, and over a lossy network; check with Spark that none was lost.

    The demo starts two clients and a relay as processes on loopback. One client sends 2,000 messages in a loop, and the
    relay is killed once with SIGKILL and started again. Then the network loses, repeats and delays some messages. At
    the end a Spark job reads the journals of all three. The demo uses the default settings with the shortest retry
    delay, and ignores the configuration.

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
        from restante.cli.demo.orchestrator import Demo, run_demo
        from restante.cli.demo.processes import SINGLE_MESSAGES
        from restante.fleet.jobs.conservation_report import run_report
        from restante.views.conservation_text import conservation_line, print_report
    except ImportError as missing:
        raise EnvironmentUnsuitable("the demo needs Spark: pip install 'restante[fleet]'") from missing

    out = Console(quiet=True) if as_json else console()
    out.print(f"[bold]alice → relay → bob[/bold], three processes on loopback, seed {seed}\n")
    with _progress(out) as progress:
        arriving = progress.add_task("arriving", total=LOOP_MESSAGES + SINGLE_MESSAGES + messages)
        demo = Demo(
            home=home,
            loop_messages=LOOP_MESSAGES,
            lossy_messages=messages,
            seed=seed,
            on_received=lambda count: progress.update(arriving, completed=count),
        )
        outcome = asyncio.run(run_demo(demo, SystemEntropy()))
    out.print()
    _print_loop(out, outcome.loop)
    _print_lossy(out, outcome)
    with out.status("Spark reads the journals of all three"):
        report = run_report(outcome.segments)
    print_report(out, report)
    arrived = outcome.loop.in_order_once_each and outcome.in_order_once_each
    proven = report.balanced and report.complete and arrived and not outcome.loop.evicted
    if as_json:
        print_json(
            {
                "proven": proven,
                "loop": _loop_json(outcome.loop),
                "sent": outcome.sent,
                "received": outcome.received,
                "in_order_once_each": outcome.in_order_once_each,
                "faults": outcome.faults,
                "conservation": conservation_line(report.total),
                "unaccounted": report.total.unaccounted,
                "events": report.events,
            }
        )
    if not proven:
        raise typer.Exit(EXIT_FAILURE)


def _print_loop(out: Console, loop: "LoopOutcome") -> None:
    singles = len(loop.single_latencies_ms)
    rows = [
        ("sent", f"{loop.sent:,} messages, {loop.evicted:,} evicted"),
        ("arrived", f"{loop.received:,}, {_as_sent(is_good=loop.in_order_once_each)}"),
        ("relay", f"killed once with SIGKILL, away for {_shown_ms(loop.relay_away_ms)}"),
        ("rate", f"{loop.messages_per_s:,.0f} messages/s while the relay was there"),
        ("latency", f"{_shown_latency(loop.latencies_ms)}, the wait for the relay included"),
        ("", f"{_shown_latency(loop.single_latencies_ms)} for {singles} sent one by one afterwards"),
    ]
    out.print(fields(f"{len(loop.latencies_ms):,} messages in a loop", rows))


def _print_lossy(out: Console, outcome: "Outcome") -> None:
    rows = [(name, f"{outcome.faults[key]:,}") for key, name in FAULT_NAMES.items()]
    out.print(table(f"{outcome.sent:,} messages over a lossy network", "fault", "times", rows=rows, right=("times",)))
    as_sent = _as_sent(is_good=outcome.in_order_once_each)
    out.print(f"[bold]bob's application[/bold] got {outcome.received:,} messages, {as_sent}\n")


def _as_sent(*, is_good: bool) -> str:
    return "each once, in the order sent" if is_good else "NOT as they were sent"


def _shown_latency(latencies_ms: Sequence[float]) -> str:
    half, most = (_shown_ms(_percentile(latencies_ms, percent)) for percent in (50, 99))
    return f"half within {half}, 99 % within {most}"


def _shown_ms(ms: float) -> str:
    return f"{ms:,.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _loop_json(loop: "LoopOutcome") -> dict[str, object]:
    return {
        "sent": loop.sent,
        "received": loop.received,
        "in_order_once_each": loop.in_order_once_each,
        "evicted": loop.evicted,
        "relay_kills": 1,
        "relay_away_ms": loop.relay_away_ms,
        "messages_per_s": round(loop.messages_per_s),
        "latency_ms": {f"p{each}": round(_percentile(loop.latencies_ms, each), 1) for each in (50, 99)},
        "single_latency_ms": {f"p{each}": round(_percentile(loop.single_latencies_ms, each), 1) for each in (50, 99)},
    }


def _progress(out: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=out
    )
