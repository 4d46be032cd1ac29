"""`restante fleet stream`: the stream from journals to tables, as an operator sees it."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from restante.cli.fleet.batch_jobs import AsJson, Master, Root, State
from restante.cli.fleet.spark_jobs import require_spark
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json
from restante.views.text_tables import table

_LABELS: Final = {
    "events": "events",
    "duplicates": "copies of a event",
    "quarantined": "rows in quarantine",
    "late": "late events",
    "judged_again": "sessions judged again",
    "revoked": "events contradicted later",
}


def stream(
    ctx: typer.Context,
    *,
    lake: Root,
    once: Annotated[bool, typer.Option("--once", help="Take all there is, write the tables, and end.")] = False,
    poll_interval_s: Annotated[
        float,
        typer.Option(
            "--poll-interval-s", metavar="SECONDS", min=1.0, max=3_600.0, help="Time between two looks for segments."
        ),
    ] = 10.0,
    tables_every: Annotated[
        float,
        typer.Option(
            "--tables-every", metavar="SECONDS", min=1.0, max=86_400.0, help="How often to write tables/ from it."
        ),
    ] = 900.0,
    reset: Annotated[
        bool, typer.Option("--reset", help="Delete the stream's state and start with the first segment.")
    ] = False,
    buckets: Annotated[
        int, typer.Option(min=1, max=10_000, help="Tasks a step is divided into; chosen when the stream begins.")
    ] = 16,
    state: State = None,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Keep the tables of a lake up to date while segments come in.

    What it knows is in stream/ of the lake and survives any end: killed and started again, it goes on where it was, and
    no row is lost or doubled. Segments may come late, twice or in any order: the tables are those that
    'restante fleet backfill' makes of the same segments. What cannot be read goes to the quarantine with file and
    reason. 'restante fleet report LAKE' reads what the stream knows.

    Ctrl-C or SIGTERM: the step under way is finished first; a second time: at once.
    """
    settings = inputs_of(ctx).load().settings
    with require_spark():
        from restante.fleet.jobs.stream_run import RunOptions, run_stream
        from restante.fleet.lake.layout import Lake

    err = Console(stderr=True, quiet=as_json, highlight=False)
    options = RunOptions(
        once=once, anew=reset, every_s=poll_interval_s, write_tables_every_s=tables_every, buckets=buckets
    )
    stop = threading.Event()
    with _asked_to_stop(stop, err) as listen:
        err.print("starting Spark")
        done = run_stream(
            Lake(lake, state),
            settings,
            options,
            master=master,
            stop=stop,
            on_step=lambda step: _print_step(err, step),
            on_ready=lambda: _ready(err, listen),
        )
    if as_json:
        print_json(asdict(done))
        return
    rows = [(_LABELS[name], f"{value:,}") for name, value in asdict(done.counts).items()]
    console().print(table(f"The stream at commit {done.commit:,}", "what", "count", rows=rows, right=("count",)))
    if done.bad_files:
        files = [(file.name, file.reason) for file in done.bad_files]
        console().print(table("Files in quarantine", "file", "reason", rows=files))


def _ready(err: Console, listen: Any) -> None:
    listen()
    err.print("looking for segments")


def _print_step(err: Console, step: Any) -> None:
    parts = [f"commit {step.commit:,}: {step.segments:,} segments, {step.rows:,} rows in {step.took_s:.1f} s"]
    told = {name: getattr(step.counts, name) for name in ("duplicates", "quarantined", "late", "revoked")}
    parts += [f"{count:,} {_LABELS[name]}" for name, count in told.items() if count]
    if step.odd_files:
        parts.append(f"{step.odd_files:,} bad file{'' if step.odd_files == 1 else 's'}")
    if step.waiting:
        parts.append(f"{step.waiting:,} segments wait")
    err.print(", ".join(parts), soft_wrap=True)


@contextmanager
def _asked_to_stop(stop: threading.Event, err: Console) -> Iterator[Any]:
    """What is yielded is to be called once Spark is there, which takes Ctrl-C for itself when it starts."""
    wanted = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in wanted}

    def ask(number: int, _frame: object) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        stop.set()
        err.print("stopping after this step; once more to stop at once")

    def listen() -> None:
        for number in wanted:
            signal.signal(number, ask)

    listen()
    try:
        yield listen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
