"""`restante journal`: ship the journal of a client or a node, and show how much is unshipped."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from restante.cli.client.options import FileOption, JsonOption
from restante.cli.terminal import HINT, console, print_json

app = typer.Typer(
    name="journal", help="Ship the journal of a client or a node as Parquet segments.", no_args_is_help=True
)


@app.command()
def ship(
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="DEST", help="A directory, created if missing, or an address: s3://, gs://, hdfs://."
        ),
    ],
    file: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write all unshipped events as segments, each with a manifest that the key beside the file signs.

    Safe to repeat and to interrupt: an event counts as shipped once its segment is on disk, and events that are shipped
    twice are counted once.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from restante.cli.fleet.journal_file import journal_of
    from restante.model.errors import EnvironmentUnsuitable, StoreUnusable
    from restante.runtime.system import SystemClock, SystemEntropy

    try:
        from restante.runtime.journal.key_file import journal_key
        from restante.runtime.journal.object_store import open_depot
        from restante.runtime.journal.segment_writer import ship as ship_events
    except ImportError as missing:
        raise EnvironmentUnsuitable("segments need pyarrow: pip install 'restante[fleet]'") from missing
    depot = open_depot(to if urlsplit(to).scheme else str(Path(to).absolute()), key="--to")
    out = console()
    with journal_of(file) as (kind, database, journal):
        key = journal_key(database.path, SystemEntropy())
        waiting = journal.last_number() - journal.shipped_through()
        columns = (TextColumn("shipping events"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=out, transient=True, disable=as_json or not out.is_terminal) as progress:
            task = progress.add_task("events", total=waiting)
            try:
                segments = ship_events(
                    journal,
                    depot,
                    key=key,
                    now_ms=SystemClock().now_ms(),
                    on_segment=lambda rows: progress.advance(task, rows),
                )
            except StoreUnusable as problem:
                problem.add_note(
                    f"{HINT}The events stay in the journal. Correct the problem, then run the command again."
                )
                raise
        through = journal.shipped_through()
        writer = journal.writer.hex()
    if as_json:
        print_json({"kind": kind, "writer": writer, "shipped_through": through, "segments": segments})
        return
    out.print(
        f"{len(segments):,} segment{'' if len(segments) == 1 else 's'} written to {to}; "
        f"shipped through event {through:,}",
        soft_wrap=True,
    )


@app.command()
def status(file: FileOption = None, as_json: JsonOption = False) -> None:
    """Show how many events a file has had, how many of them are unshipped, and the key that signs its segments."""
    from restante.cli.fleet.journal_file import journal_of
    from restante.runtime.journal.key_file import journal_key
    from restante.runtime.system import SystemEntropy

    with journal_of(file) as (kind, database, journal):
        key = journal_key(database.path, SystemEntropy()).public.hex()
        last, through = journal.last_number(), journal.shipped_through()
        writer = journal.writer.hex()
    if as_json:
        print_json({"kind": kind, "writer": writer, "key": key, "last_event": last, "shipped_through": through})
        return
    console().print(f"a {kind}'s journal: {last:,} events, {last - through:,} of them unshipped")
    console().print(f"its segments are signed by the key {key}", soft_wrap=True)
