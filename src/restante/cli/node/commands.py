"""`restante node`: create, run, inspect and check a node, and delete expired messages."""

from pathlib import Path
from typing import Annotated

import typer

from restante.cli.client.home import hinting_empty_directory
from restante.cli.client.options import JsonOption
from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.shared_options import inputs_of, parse_assignments
from restante.cli.terminal import HINT, console, print_json
from restante.model.errors import ConfigurationInvalid, EnvironmentUnsuitable, RestanteError
from restante.views.text_tables import fields

EXAMPLES = """\
[bold]Examples[/bold]

  restante node init /srv/restante         create its key and configuration
  restante node run /srv/restante          until Ctrl-C or SIGTERM
  restante node status /srv/restante       is it running, and what does it store?
  restante node peers /srv/restante        its part in the mesh, and the nodes that it knows
  restante node check /srv/restante        is every message that it stores whole?
  restante node gc /srv/restante           delete expired messages now
  restante --set relay.put_rate_per_s=5000 node run /srv/restante
"""

app = typer.Typer(
    help="Run a node: it stores messages until their recipients fetch them, as a relay or in the mesh, or is a hop.",
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
        typer.Option(metavar="HOST:PORT", help="Address for clients. Default: 127.0.0.1:7431."),
    ] = None,
    status: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address for health and metrics. Default: 127.0.0.1:7432.")
    ] = None,
    for_tests: Annotated[
        bool, typer.Option("--for-tests", hidden=True, help="Allow the section [testing] in its settings.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create a node's directory with its key and a commented configuration.

    DIR must not exist or must be empty. Only you can read the files in it.

    Clients identify the node by its key. Keep a copy of DIR/key in a safe place, and keep it secret.
    """
    from restante.cli.node.config_template import node_toml
    from restante.model.places import RelayPlace
    from restante.node.config import DEFAULT_LISTEN, DEFAULT_STATUS
    from restante.runtime.endpoints import parse_endpoint
    from restante.runtime.node_home import NodeDirectory
    from restante.runtime.system import SystemEntropy
    from restante.runtime.testing_clock import MADE_FOR_TESTS
    from restante.views.node_status import print_relay

    listen_at, status_at = parse_endpoint(listen or DEFAULT_LISTEN), parse_endpoint(status or DEFAULT_STATUS)
    there = NodeDirectory(directory)
    text = node_toml(listen=str(listen_at), status=str(status_at))
    with hinting_empty_directory():
        identity = there.create(text, SystemEntropy())
    if for_tests:
        (directory / MADE_FOR_TESTS).touch()
    relay = RelayPlace(node_key=identity.node_key, host=listen_at.host, port=listen_at.port)
    if as_json:
        print_json({"directory": str(directory), "config": str(there.config), "relay": str(relay)})
        return
    out = console()
    rows = [("settings", str(there.config)), ("key", f"{there.key} (secret; keep a copy)")]
    out.print(fields(f"Created a node in {directory}", rows))
    print_relay(out, str(relay))
    out.print(f"Next: restante node run {directory}", markup=False)


@app.command()
def run(
    ctx: typer.Context,
    directory: DirectoryArgument,
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY@HOST:PORT", help="A node of the mesh to join by, besides those of the settings."),
    ] = None,
) -> None:
    """Run the node in this terminal or under a service manager, until SIGTERM or Ctrl-C.

    Then it accepts no more connections, finishes the puts in progress, and exits with status 0. A node that stores mail
    of the mesh first hands over its copies, for at most five minutes.

    The log goes to standard error: text on a terminal, JSON lines elsewhere.

    SIGUSR1 deletes expired messages. SIGHUP is ignored: restart the node after a change of its settings.
    """
    import sys
    from dataclasses import replace

    from restante.cli.node.inspection import load_config
    from restante.node.daemon import run_node
    from restante.node.safe_logging import Event, Level, log, set_up_logging
    from restante.runtime.endpoints import parse_relay_place
    from restante.runtime.node_home import NodeDirectory

    there = NodeDirectory(directory)
    there.check()
    config = load_config(there, _overrides(ctx))
    config = replace(config, bootstrap=(*config.bootstrap, *map(parse_relay_place, bootstrap or ())))
    set_up_logging(level=config.log_level, form=config.log_format, stream=sys.stderr)
    try:
        run_node(there, config)
    except EnvironmentUnsuitable as problem:
        problem.add_note(f"{HINT}Stop the process that uses this address, or set another one in {there.config}.")
        raise
    except RestanteError:
        raise
    except Exception as error:  # noqa: BLE001 - the text may name peers; the formatter decides what is logged
        log(Level.ERROR, Event.CRASHED, error)
        raise typer.Exit(EXIT_FAILURE) from None


@app.command()
def status(ctx: typer.Context, directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Show the status of the node and what its store holds.

    The store is shown even if the node is stopped. Exit status 0 only if the node runs and its store is usable.
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
def peers(ctx: typer.Context, directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Show the part of a running node in the mesh, and the nodes that it knows."""
    from restante.cli.node.inspection import status_data
    from restante.runtime.node_home import NodeDirectory
    from restante.views.mesh_status import mesh_fields, peers_table

    there = NodeDirectory(directory)
    there.check()
    mesh = status_data(there, _overrides(ctx)).get("mesh")
    if mesh is None:
        raise ConfigurationInvalid(
            "this node does not run, or takes no part in the mesh: set node.roles and restart it"
        )
    if as_json:
        print_json(mesh)
        return
    console().print(mesh_fields(mesh))
    console().print(peers_table(mesh["peers"]))


@app.command()
def family(
    directory: DirectoryArgument,
    operator: Annotated[
        Path, typer.Argument(metavar="OPERATOR", help="The operator's node directory, whose key signs.")
    ],
) -> None:
    """Certify that this node belongs to an operator.

    Nodes of one operator are one family: mail and circuits spread over families. The certificate is written to
    DIR/family and published with the node's next descriptor; restart the node. OPERATOR may be one of the nodes.
    """
    from restante.core.mesh_proofs.descriptors import admit_to_family
    from restante.runtime.family_certificates import save_certificate
    from restante.runtime.node_home import NodeDirectory

    there, by = NodeDirectory(directory), NodeDirectory(operator)
    there.check()
    by.check()
    save_certificate(there.certificate, admit_to_family(by.identity(), there.identity().node_key))
    console().print(f"Certified. The node in {directory} names its family after a restart.", markup=False)


@app.command()
def check(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Check the node's file, and every message in it against its hash. Exit status 1 if there are findings.

    Works beside a running node and on a stopped one, and changes nothing.
    """
    from restante.cli.integrity_report import report_checks
    from restante.cli.node.inspection import check_store
    from restante.runtime.node_home import NodeDirectory

    there = NodeDirectory(directory)
    there.check()
    if not there.database.exists() and not as_json:
        console().print("This node has not run yet: there is nothing to check.")
        return
    advice = (
        "A node never serves a damaged message. While it runs it finds damage, journals it, and fetches damaged copies"
        " of the mesh from other nodes. If there is more than that, the disk may be dying: replace it."
    )
    report_checks(there.database.name, check_store(there), advice=advice, as_json=as_json)


@app.command()
def gc(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Delete expired messages now, instead of at the next reap.

    A running node does it on a signal; otherwise this command does it.
    """
    from restante.cli.node.inspection import collect_garbage
    from restante.runtime.node_home import NodeDirectory

    there = NodeDirectory(directory)
    there.check()
    reaped, by_node = collect_garbage(there)
    if as_json:
        print_json({"reaped": reaped, "by_running_node": by_node})
        return
    who = "The running node deleted" if by_node else "Deleted"
    console().print(f"{who} {reaped:,} expired message{'' if reaped == 1 else 's'}.")


def _overrides(ctx: typer.Context) -> dict[str, str]:
    inputs = inputs_of(ctx)
    if inputs.config is not None:
        raise ConfigurationInvalid("a node reads only DIR/node.toml: remove --config")
    return parse_assignments(inputs.assignments)
