"""`restante node`: make a node, run it, ask how it fares, and clear out what has expired."""

from pathlib import Path
from typing import Annotated

import typer

from restante.cli.client.options import JsonOption
from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.shared_options import inputs_of, parse_assignments
from restante.cli.terminal import HINT, console, print_json
from restante.model.errors import ConfigurationInvalid, EnvironmentUnsuitable, RestanteError
from restante.views.text_tables import fields

EXAMPLES = """\
[bold]Examples[/bold]

  restante node init /srv/restante         a key, a configuration, nothing else
  restante node run /srv/restante          until Ctrl-C or SIGTERM
  restante node status /srv/restante       is it up, and what does it hold?
  restante node gc /srv/restante           remove what has expired, now
  restante --set relay.put_rate_per_s=5000 node run /srv/restante
"""

app = typer.Typer(
    help="Run a relay: a node that keeps messages on disk until their recipients come for them.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)

DirectoryArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The node's directory.")]


@app.command()
def init(
    directory: DirectoryArgument,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where clients reach the relay; 127.0.0.1:7431 if not given."),
    ] = None,
    status: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where health and metrics are; 127.0.0.1:7432 if not given.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a node's directory: its key and a commented configuration.

    DIR must not exist yet, or be empty: nothing is ever overwritten. Only you may read what is in it.

    Clients know the node by its key: keep a copy of DIR/key in a safe place, and show it to nobody.
    """
    from restante.cli.node.config_template import node_toml
    from restante.model.places import RelayPlace
    from restante.node.config import DEFAULT_LISTEN, DEFAULT_STATUS
    from restante.runtime.endpoints import parse_endpoint
    from restante.runtime.node_home import NodeDirectory
    from restante.runtime.system import SystemEntropy
    from restante.views.node_status import print_relay

    listen_at, status_at = parse_endpoint(listen or DEFAULT_LISTEN), parse_endpoint(status or DEFAULT_STATUS)
    there = NodeDirectory(directory)
    text = node_toml(listen=str(listen_at), status=str(status_at))
    identity = there.create(text, SystemEntropy())
    relay = RelayPlace(node_key=identity.node_key, host=listen_at.host, port=listen_at.port)
    if as_json:
        print_json({"directory": str(directory), "config": str(there.config), "relay": str(relay)})
        return
    out = console()
    rows = [("settings", str(there.config)), ("key", f"{there.key} (secret; keep a copy)")]
    out.print(fields(f"Made a node in {directory}", rows))
    print_relay(out, str(relay))
    out.print(f"Next: restante node run {directory}", markup=False)


@app.command()
def run(ctx: typer.Context, directory: DirectoryArgument) -> None:
    """Run the node in this terminal or under a service manager, until SIGTERM or Ctrl-C.

    It then takes no more connections, finishes the puts under way, and ends with status 0.

    The log goes to standard error: text on a terminal, JSON lines elsewhere.

    SIGUSR1 removes what has expired. SIGHUP does nothing: restart the node after a change of its settings.
    """
    import sys

    from restante.cli.node.inspection import load_config
    from restante.node.daemon import run_node
    from restante.node.safe_logging import Event, Level, log, set_up_logging
    from restante.runtime.node_home import NodeDirectory

    there = NodeDirectory(directory)
    there.check()
    config = load_config(there, _overrides(ctx))
    set_up_logging(level=config.log_level, form=config.log_format, stream=sys.stderr)
    try:
        run_node(there, config)
    except EnvironmentUnsuitable as problem:
        problem.add_note(f"{HINT}Stop the process that uses this address, or set another one in {there.config}.")
        raise
    except RestanteError:
        raise
    except Exception as error:  # noqa: BLE001 - its text may name peers: the formatter decides what is told
        log(Level.ERROR, Event.CRASHED, error)
        raise typer.Exit(EXIT_FAILURE) from None


@app.command()
def status(ctx: typer.Context, directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Ask the running node how it fares, and show what its store holds.

    Exit status 0 only if the node runs and its store can be used. The store is shown also when the node is stopped.
    """
    from restante.cli.node.inspection import status_data
    from restante.runtime.node_home import NodeDirectory
    from restante.views.node_status import print_status

    there = NodeDirectory(directory)
    there.check()
    data = status_data(there, _overrides(ctx))
    if as_json:
        print_json(data)
    else:
        print_status(console(), data)
    if not data["running"] or not data["health"]["usable"]:
        raise typer.Exit(EXIT_FAILURE)


@app.command()
def gc(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Clear out expired messages at once, instead of within the hour.

    A running node is asked to do it; otherwise it is done right here.
    """
    from restante.cli.node.inspection import collect_garbage
    from restante.runtime.node_home import NodeDirectory

    there = NodeDirectory(directory)
    there.check()
    reaped, by_node = collect_garbage(there)
    if as_json:
        print_json({"reaped": reaped, "by_running_node": by_node})
        return
    who = "The running node removed" if by_node else "Removed"
    console().print(f"{who} {reaped:,} expired message{'' if reaped == 1 else 's'}.")


def _overrides(ctx: typer.Context) -> dict[str, str]:
    inputs = inputs_of(ctx)
    if inputs.config is not None:
        raise ConfigurationInvalid("a node reads DIR/node.toml and no other file: leave --config away")
    return parse_assignments(inputs.assignments)
