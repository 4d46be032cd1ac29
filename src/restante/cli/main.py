"""The entry point: shared options, the list of commands, and how errors become exit statuses.

Imported for every call, `restante --version` too: commands import the heavy rooms (client, node, fleet) inside their
functions.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from restante import __version__
from restante.cli.client.channel import app as channel_app
from restante.cli.client.contact import app as contact_app
from restante.cli.client.dead_letters import app as dlq_app
from restante.cli.client.identity import app as id_app
from restante.cli.client.messages import inbox, send
from restante.cli.client.outbox import app as outbox_app
from restante.cli.client.relay import app as relay_app
from restante.cli.client.security import security, sessions
from restante.cli.config import config
from restante.cli.demo.command import demo
from restante.cli.error_advice import EXIT_INTERRUPTED, exit_status
from restante.cli.fleet.commands import app as fleet_app
from restante.cli.fleet.journal import app as journal_app
from restante.cli.node.commands import app as node_app
from restante.cli.policy import policy
from restante.cli.shared_options import Inputs
from restante.cli.terminal import print_error
from restante.model.errors import RestanteError

EXAMPLES = """\
[bold]Examples[/bold]

  restante demo                       the whole product once, with proof
  restante id new DIR                 make an identity; then: restante send, restante inbox
  restante policy                     the rules in force, as tables
  restante policy retry --json        the retry delays, for a program
  restante --set retry.base_ms=200 policy retry
  restante config                     every setting and where it came from
  restante outbox stats --file my.db  how full a client's outbox is
  restante dlq list --file my.db      what was given up, and why
  restante channel render news.md     what each chat platform would get
  restante node init DIR              make a relay; then: restante node run DIR
  restante journal ship --file my.db --to segments
  restante fleet report segments --html report.html
  restante fleet backfill --lake DIR  tables from a fleet's journals, on Spark
  restante fleet stream --lake DIR      the same, kept up to date while journals come in
"""

app = typer.Typer(
    name="restante",
    help="Reliable, private store-and-forward delivery: mail held until its addressee comes for it.",
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
app.command()(sessions)
app.command()(security)
app.add_typer(id_app, name="id")
app.add_typer(contact_app, name="contact")
app.add_typer(outbox_app, name="outbox")
app.add_typer(dlq_app, name="dlq")
app.add_typer(channel_app, name="channel")
app.add_typer(node_app, name="node")
app.add_typer(relay_app, name="relay")
app.add_typer(journal_app, name="journal")
app.add_typer(fleet_app, name="fleet")


def main() -> None:
    """What the installed command calls."""
    run(app)


def run(application: typer.Typer, args: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and end the process: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    try:
        application(args, prog_name="restante")
    except RestanteError as problem:
        print_error(problem)
        sys.exit(exit_status(problem.code))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(0)
