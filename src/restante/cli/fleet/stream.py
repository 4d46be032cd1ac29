"""`restante fleet stream`: keep the tables of a lake up to date."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from restante.cli.fleet.batch_jobs import AsJson, Master, Root
from restante.cli.fleet.operator_key import PinnedKey, parse_pinned_key
from restante.cli.fleet.spark_jobs import require_spark
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json
from restante.views.text_tables import table

_LABELS: Final = {
    "events": "events",
    "duplicates": "duplicates",
    "quarantined": "rows in quarantine",
    "late": "late events",
    "reprocessed": "sessions reprocessed",
    "retracted": "events retracted",
}


def stream(
    ctx: typer.Context,
    *,
    lake: Root,
    once: Annotated[bool, typer.Option("--once", help="Read all segments that are there, then end.")] = False,
    poll_interval_s: Annotated[
        float,
        typer.Option("--poll-interval-s", metavar="SECONDS", min=1.0, max=3_600.0, help="How often to list segments."),
    ] = 10.0,
    reset: Annotated[
        bool, typer.Option("--reset", help="Delete the stream's tables and state and start with the first segment.")
    ] = False,
    buckets: Annotated[
        int, typer.Option(min=1, max=10_000, help="Tasks a batch is divided into; fixed when the stream begins.")
    ] = 16,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="PATH", help="Spark's checkpoint; by default in a lake on this machine."),
    ] = None,
    operator_key: PinnedKey = None,
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Keep the tables of a lake up to date while segments come in.

    One Structured Streaming query reads new segments and commits each batch to Delta tables. Killed at any moment and
    started again it loses and doubles no row, with its checkpoint, an old one or none. Segments may come late, twice
    or in any order: the tables equal those of 'restante fleet backfill'. Files that cannot be read are listed in the
    table quarantine and tried again when they change.

    Ctrl-C or SIGTERM: the batch in progress is finished first; a second time: at once.
    """
    settings = inputs_of(ctx).load().settings
    with require_spark():
        from restante.fleet.jobs.stream import StreamOptions, run_stream
        from restante.fleet.lake.layout import Lake

    err = Console(stderr=True, quiet=as_json, highlight=False)
    options = StreamOptions(
        once=once,
        reset=reset,
        poll_interval_s=poll_interval_s,
        buckets=buckets,
        checkpoint=checkpoint,
        operator_key=parse_pinned_key(operator_key),
    )
    stop = threading.Event()
    with _asked_to_stop(stop, err) as listen:
        err.print("starting Spark")
        done = run_stream(
            Lake(lake),
            settings,
            options,
            master=master,
            stop=stop,
            on_batch=lambda batch: _print_batch(err, batch),
            on_publish=lambda n, took_s: err.print(f"all tables of batch {n:,} in {took_s:.1f} s", soft_wrap=True),
            on_ready=lambda ui: _ready(err, listen, ui),
        )
    if as_json:
        print_json(asdict(done))
        return
    rows = [(_LABELS[name], f"{value:,}") for name, value in asdict(done.counts).items()]
    console().print(table(f"The stream at batch {done.n:,}", "what", "count", rows=rows, right=("count",)))
    if done.bad_files:
        files = [(file.name, file.reason) for file in done.bad_files]
        console().print(table("Rejected files", "file", "reason", rows=files))


def _ready(err: Console, listen: Any, ui: str | None) -> None:
    listen()
    if ui is not None:
        err.print(f"Spark UI at {ui}", soft_wrap=True)
    err.print("looking for segments")


def _print_batch(err: Console, batch: Any) -> None:
    parts = [f"batch {batch.n:,}: {batch.segments:,} segments, {batch.rows:,} rows in {batch.took_s:.1f} s"]
    counts = {name: getattr(batch.counts, name) for name in ("duplicates", "quarantined", "late", "retracted")}
    parts += [f"{count:,} {_LABELS[name]}" for name, count in counts.items() if count]
    if batch.rejected_files:
        parts.append(f"{batch.rejected_files:,} rejected file{'' if batch.rejected_files == 1 else 's'}")
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
        err.print("stopping after this batch; again to stop at once")

    def listen() -> None:
        for number in wanted:
            signal.signal(number, ask)

    listen()
    try:
        yield listen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
