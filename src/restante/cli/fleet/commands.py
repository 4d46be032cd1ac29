"""`restante fleet`: reports on the journals of a fleet, and the actions that follow from them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.client.options import FileOption, JsonOption
from restante.cli.error_advice import EXIT_FAILURE, EXIT_UNDELIVERED
from restante.cli.fleet.batch_jobs import backfill, generate
from restante.cli.fleet.enrol import enrol
from restante.cli.fleet.lake_tables import alerts, compact, forget, query, retain, tables
from restante.cli.fleet.operator_key import (
    KeyFile,
    OperatorKey,
    PinnedKey,
    parse_operator_key,
    parse_pinned_key,
    read_operator,
)
from restante.cli.fleet.operator_key import app as key_app
from restante.cli.fleet.simulate import app as simulate_app
from restante.cli.fleet.spark_jobs import require_spark, stage_bar
from restante.cli.fleet.stream import stream
from restante.cli.fleet.text_files import write_text_file
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json
from restante.model.errors import ConfigurationInvalid
from restante.views.text_tables import table

app = typer.Typer(
    name="fleet",
    help="Build tables and reports from the journals of a fleet, and apply its actions.",
    no_args_is_help=True,
)

app.command()(backfill)
app.command()(generate)
app.command()(stream)
app.add_typer(key_app)
app.add_typer(simulate_app)
app.command()(enrol)
app.command()(query)
app.command()(tables)
app.command()(alerts)
app.command()(compact)
app.command()(retain)
app.command()(forget)


@app.command()
def report(
    ctx: typer.Context,
    segments: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="The directory that journals were shipped to, or a lake; any Hadoop path."
        ),
    ],
    *,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write one HTML page.")] = None,
    actions: Annotated[
        Path | None,
        typer.Option("--actions", metavar="DIR", help="Also write the proposed actions for clients and nodes."),
    ] = None,
    key: KeyFile = None,
    operator_key: PinnedKey = None,
    as_of: Annotated[
        datetime | None,
        typer.Option("--as-of", formats=["%Y-%m-%d"], help="Count only events before the end of this UTC day."),
    ] = None,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
    as_json: JsonOption = False,
) -> None:
    """Check that every accepted message is accounted for.

    List missing messages, missing events and withholding nodes.

    From a lake, the report reads the state of the stream. Without one it reads the tables of a backfill, if no segment
    was added or changed since, and otherwise the segments. The report says which.

    Exit status: 0 if no message failed; 3 if messages are dead, expired or evicted, all of them accounted for; 1 if
    messages, events or segments are missing, a file could not be read, or a node withheld messages.
    """
    from restante.cli.fleet.action_files import ActionFiles
    from restante.core.fleet.signed_actions import ACTION_LIFETIME_MS
    from restante.runtime.system import SystemClock

    with require_spark():
        from restante.fleet.jobs.fleet_report import STAGES, run_fleet_report
        from restante.views.conservation_text import failed
        from restante.views.fleet_html import html_page
        from restante.views.fleet_text import print_fleet_report, report_data

    settings = inputs_of(ctx).load().settings
    files = None
    pinned = parse_pinned_key(operator_key)
    operator = None if key is None else read_operator(key)
    if operator is not None:
        pinned = pinned or bytes(operator.address)
    if actions is not None:
        if operator is None:
            raise ConfigurationInvalid("--actions needs --key FILE: actions count only if they are signed")
        expires_at_ms = SystemClock().now_ms() + ACTION_LIFETIME_MS
        files = ActionFiles(actions, operator, expires_at_ms=expires_at_ms)
    out = console()
    with stage_bar(out, stages=len(STAGES), quiet=as_json) as on_stage:
        found = run_fleet_report(
            segments,
            master=master,
            now_ms=SystemClock().now_ms() if as_of is None else _end_of_day_ms(as_of),
            is_past=as_of is not None,
            retention=settings.dead_letters,
            on_stage=on_stage,
            on_action=None if files is None else files.add,
            operator_key=pinned,
        )
    if html is not None:
        write_text_file(html_page(found), html)
    if files is not None:
        files.publish()
    if as_json:
        print_json(report_data(found))
    else:
        print_fleet_report(out, found)
        for written, what in ((html, "page"), (actions, "actions")):
            if written is not None:
                out.print(f"{what} written to {written}", soft_wrap=True)
    if status := report_status(sound=found.sound, failed=failed(found.conservation.total)):
        raise typer.Exit(status)


def report_status(*, sound: bool, failed: int) -> int:
    """Return the exit status of a report. What is unaccounted for is worse than messages that failed visibly."""
    if not sound:
        return EXIT_FAILURE
    return EXIT_UNDELIVERED if failed else 0


@app.command()
def apply(
    ctx: typer.Context,
    actions: Annotated[Path, typer.Argument(metavar="DIR", help="Where 'fleet report --actions' wrote them.")],
    *,
    operator_key: OperatorKey,
    file: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply the fleet's actions to this client's or node's file: redrive, retransmit, repair, scoreboard.

    Each action is checked against the file first and journaled with what it changes. Applying it a second time changes
    nothing. No action deletes mail. Files of actions must be signed by the operator's key and not be expired.
    """
    from restante.cli.fleet.action_files import read_actions
    from restante.cli.fleet.apply_actions import apply_actions
    from restante.cli.fleet.journal_file import journal_of
    from restante.runtime.system import SystemClock

    settings = inputs_of(ctx).load().settings
    with journal_of(file) as (kind, database, journal):
        signer, now_ms = parse_operator_key(operator_key), SystemClock().now_ms()
        wanted = list(read_actions(actions, journal.writer, operator_key=signer, now_ms=now_ms))
        counts = apply_actions(kind, database, journal, wanted, settings)
    if as_json:
        print_json([{"action": action, "outcome": outcome, "times": n} for (action, outcome), n in counts.items()])
        return
    rows = [(action.value, outcome.value, f"{n:,}") for (action, outcome), n in counts.items()]
    out = console()
    out.print(table("Actions", "action", "outcome", "times", rows=rows) if rows else "No actions for this file.")


def _end_of_day_ms(day: datetime) -> int:
    return int((day.replace(tzinfo=UTC) + timedelta(days=1)).timestamp() * 1_000) - 1
