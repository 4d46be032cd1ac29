"""The entry point: shared options, the list of commands, and the exit statuses of errors.

Every call imports this module, even `restante --version`. The packages client, node and fleet are slow to import, so
commands import them inside their functions.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from restante import __version__
from restante.cli.client.channel import app as channel_app
from restante.cli.client.contact import app as contact_app
from restante.cli.client.dead_letters import app as dlq_app
from restante.cli.client.identity import app as id_app
from restante.cli.client.messages import history, inbox, send
from restante.cli.client.outbox import app as outbox_app
from restante.cli.client.places import app as places_app
from restante.cli.client.relay import app as relay_app
from restante.cli.client.run import run as run_client
from restante.cli.client.security import app as sessions_app
from restante.cli.client.security import security
from restante.cli.config import config
from restante.cli.demo.command import demo
from restante.cli.error_advice import EXIT_BAD_INPUT, EXIT_FAILURE, EXIT_INTERRUPTED, exit_status
from restante.cli.fleet.commands import app as fleet_app
from restante.cli.fleet.journal import app as journal_app
from restante.cli.mesh.circuits import app as circuits_app
from restante.cli.mesh.commands import app as mesh_app
from restante.cli.mesh.requests import app as requests_app
from restante.cli.node.commands import app as node_app
from restante.cli.node.up import up
from restante.cli.policy import policy
from restante.cli.shared_options import Inputs
from restante.cli.terminal import (
    HINT,
    OutputLost,
    discard_output,
    prepare_streams,
    print_error,
    wants_json,
)
from restante.cli.usage_errors import USAGE_ERROR, usage_error
from restante.model.errors import RestanteError, StoreUnusable

EXAMPLES = """\
[bold]Examples[/bold]

  restante demo                       run everything once and check the result
  restante id new DIR                 create an identity; then: send, inbox
  restante policy                     the rules in force, as tables
  restante policy retry --json        the retry delays as JSON
  restante --set retry.base_ms=200 policy retry
  restante config                     every setting and its source
  restante outbox stats --file my.db  how full a client's outbox is
  restante dlq list --file my.db      messages that could not be delivered
  restante channel render news.md     preview a message for each chat platform
  restante node init DIR              create a relay; then: node run DIR
  restante up --nodes 8               a mesh of nodes on this machine
  restante journal ship --file my.db --to segments
  restante fleet report segments --html report.html
  restante fleet backfill --lake DIR  build tables from journals, with Spark
  restante fleet stream --lake DIR    keep the tables up to date
"""

app = typer.Typer(
    name="restante",
    help="Reliable, private store-and-forward messaging.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"restante {__version__}")
        raise typer.Exit


@app.callback()
def shared(
    ctx: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Read settings from this file.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set one setting, such as retry.base_ms=200. Repeatable."),
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    ctx.obj = Inputs(config=config, assignments=tuple(assignments or ()))


app.command()(demo)
app.command()(policy)
app.command()(config)
app.command()(send)
app.command()(inbox)
app.command()(history)
app.command(name="run")(run_client)
app.command()(security)
app.add_typer(sessions_app, name="sessions")
app.add_typer(id_app, name="id")
app.add_typer(contact_app, name="contact")
app.add_typer(places_app, name="places")
app.add_typer(requests_app, name="requests")
app.add_typer(mesh_app, name="mesh")
app.add_typer(circuits_app, name="circuits")
app.add_typer(outbox_app, name="outbox")
app.add_typer(dlq_app, name="dlq")
app.add_typer(channel_app, name="channel")
app.command()(up)
app.add_typer(node_app, name="node")
app.add_typer(relay_app, name="relay")
app.add_typer(journal_app, name="journal")
app.add_typer(fleet_app, name="fleet")


SHOWN_HELP: Final = "NoArgsIsHelpError"
"""What typer raises when it has shown the help because there were no arguments."""


def main() -> None:
    """The installed command."""
    prepare_streams()
    run(app)


def run(application: typer.Typer, args: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and end the process: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    arguments = sys.argv[1:] if args is None else list(args)
    as_json = wants_json(arguments)
    try:
        status = _invoke(application, arguments)
        sys.stdout.flush()
    except RestanteError as problem:
        print_error(problem, as_json=as_json)
        status = exit_status(problem.code)
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except typer.Abort:
        status = EXIT_FAILURE
    except OutputLost as problem:
        status = _report_lost_output(problem, as_json=as_json)
    sys.exit(status)


def _invoke(application: typer.Typer, arguments: list[str]) -> int:
    """Run the command and return its status."""
    try:
        ended = application(arguments, prog_name="restante", standalone_mode=False)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else EXIT_FAILURE
    except USAGE_ERROR as problem:
        if type(problem).__name__ == SHOWN_HELP:
            return EXIT_BAD_INPUT
        raise usage_error(problem) from problem
    return ended if isinstance(ended, int) else 0


def _report_lost_output(problem: OutputLost, *, as_json: bool) -> int:
    """Print why the output was lost. A closed pipe is the reader's decision and gets no error line."""
    discard_output()
    if not problem.is_closed_pipe:
        lost = StoreUnusable(f"the output could not be written: {problem}")
        lost.add_note(f"{HINT}Free space where the output goes, or send it elsewhere. What the command did is done.")
        print_error(lost, as_json=as_json)
    return EXIT_FAILURE
