"""`restante up`: a local mesh to try things with, until Ctrl-C."""

import contextlib
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.terminal import console, warn

if TYPE_CHECKING:  # the module is slow to import, and every command imports this one
    from collections.abc import Sequence

    from rich.console import Group

    from restante.cli.node.local_network import LocalNode

REFRESH_S: Final = 1.0
NODES_FOR_CIRCUITS: Final = 7


def up(
    nodes: Annotated[int, typer.Option(min=1, max=64, help="How many nodes.")] = 8,
    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the nodes in this new directory. Default: a temporary one.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port for clients, at each address.")] = 7431,
    status_port: Annotated[int, typer.Option(min=1, max=65_535, help="The port for health, at each address.")] = 7432,
) -> None:
    """Run a mesh of nodes on this machine until Ctrl-C, to try things with.

    The nodes listen at 127.0.1.1, 127.0.2.1 and so on, each its own family. The first lines show how to join them from
    another terminal.
    """
    for ending in (signal.SIGTERM, signal.SIGHUP):  # or the nodes would stay behind
        signal.signal(ending, _interrupt)
    if directory is not None:
        _run(directory, nodes, port, status_port)
        return
    with tempfile.TemporaryDirectory(prefix="restante-up-") as made:
        _run(Path(made), nodes, port, status_port)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _run(base: Path, count: int, port: int, status_port: int) -> None:
    from rich.live import Live

    from restante.cli.node.local_network import make_nodes, running, wait_until_joined

    out = console()
    made = make_nodes(base, count, port=port, status_port=status_port)
    with running(made):
        wait_until_joined(made)
        named = ",".join(str(each.place) for each in made[:3])
        out.print(f"{count} nodes run in {base}. Join them from another terminal:", markup=False, soft_wrap=True)
        off = " --circuits off" if count < NODES_FOR_CIRCUITS else ""
        out.print(f"  restante id new alice --mesh {named}{off}", markup=False, highlight=False, soft_wrap=True)
        if off:
            out.print(f"Circuits need at least {NODES_FOR_CIRCUITS} nodes: clients of this mesh do without.")
        try:
            out.print("Ctrl-C ends the nodes.", markup=False)
            with (
                Live(_table(made), console=out, auto_refresh=False)
                if out.is_terminal
                else contextlib.nullcontext() as live
            ):
                while any(each.is_running for each in made):
                    if live is not None:
                        live.update(_table(made), refresh=True)
                    time.sleep(REFRESH_S)
            warn("every node has ended", as_json=False)
            raise typer.Exit(EXIT_FAILURE)
        except KeyboardInterrupt:
            with contextlib.suppress(OSError):  # the terminal may be gone
                out.print("Ending the nodes.", markup=False)


def _table(made: "Sequence[LocalNode]") -> "Group":
    from restante.views.mesh_status import network_table

    return network_table([(each.place.host, each.look()) for each in made])
