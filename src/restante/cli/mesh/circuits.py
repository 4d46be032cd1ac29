"""`restante circuits`: the circuits of a client, and whether it uses any."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from restante.cli.client.home import HomeOption, PassphraseOption, find_client_home, opened_client
from restante.cli.client.options import JsonOption
from restante.cli.mesh.running import run_now
from restante.cli.terminal import console, print_json

if TYPE_CHECKING:
    from restante.client.client import Client

app = typer.Typer(
    help="Show the circuits of a client, or switch them on and off.",
    invoke_without_command=True,
    rich_markup_mode="rich",
)


@app.callback()
def circuits(
    ctx: typer.Context, home: HomeOption = None, passphrase_file: PassphraseOption = None, as_json: JsonOption = False
) -> None:
    """Show the circuits of the running client: hops, use, age, build time, failed builds and where a message failed.

    If the client does not run, build one circuit now and show it.
    """
    if ctx.invoked_subcommand is not None:
        return
    from restante.runtime.directory_lock import note_of_holder
    from restante.runtime.local_questions import ask
    from restante.views.circuits import circuits_view

    note = note_of_holder(find_client_home(home).run_lock)
    is_running = note is not None
    data = ask(note)["circuits"] if note is not None else run_now(_try_one(opened_client(ctx, home, passphrase_file)))
    if as_json:
        print_json({**data, "is_running": is_running})
        return
    out = console()
    if data["pool"] is None:
        out.print(_without(data["mode"]), soft_wrap=True, markup=False)
        return
    if not is_running:
        out.print("The client does not run. This circuit was built to see whether it works, and has ended.")
    out.print(circuits_view(data["pool"], data["last_failure"]))


@app.command()
def use(
    mode: Annotated[str, typer.Argument(metavar="required|off", help="Whether the mesh is reached through circuits.")],
    *,
    home: HomeOption = None,
) -> None:
    """Set whether the mesh is reached through circuits. There is no fallback from one to the other."""
    from restante.client.mesh.host import CircuitMode, circuit_mode

    wanted = circuit_mode(mode)
    find_client_home(home).set_circuits(wanted)
    out = console()
    out.print(
        "Circuits are required." if wanted is CircuitMode.REQUIRED else _without(wanted.value),
        soft_wrap=True,
        markup=False,
    )
    out.print("A running client changes when it is started again.")


def _without(mode: str | None) -> str:
    from restante.client.mesh.host import WITHOUT_CIRCUITS

    return (
        "This client uses no mesh, so it has no circuits." if mode is None else f"Circuits are off: {WITHOUT_CIRCUITS}."
    )


async def _try_one(client: "Client") -> dict[str, Any]:
    from restante.client.service import circuit_data

    try:
        async with client.mesh_host() as host:
            if host.circuits is not None:
                await host.directory.ensure_fresh()
                await host.circuits.pool.acquire("try")
            return circuit_data(client, host)
    finally:
        await client.close()
