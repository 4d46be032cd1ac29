"""`restante mesh`: what a client knows of the mesh, who stores what, and who should."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from restante.cli.client.home import HomeOption, PassphraseOption, opened_client
from restante.cli.client.options import JsonOption
from restante.cli.mesh.running import run_now
from restante.cli.terminal import console, print_json
from restante.views.text_tables import fields

if TYPE_CHECKING:
    from restante.client.client import Client

app = typer.Typer(help="Look into the mesh.", no_args_is_help=True, rich_markup_mode="rich")


@app.command()
def status(
    ctx: typer.Context, home: HomeOption = None, passphrase_file: PassphraseOption = None, as_json: JsonOption = False
) -> None:
    """Say how many nodes are known, whether the clock is right, and what is not hidden from nodes."""
    data = run_now(_status(opened_client(ctx, home, passphrase_file)))
    if as_json:
        print_json(data)
        return
    from restante.client.mesh.host import WITHOUT_CIRCUITS

    agreed = "agreed" if data["is_time_agreed"] else "own clock: fewer than 3 families were heard"
    offset_s = round(data["clock_offset_ms"] / 1_000, 1) + 0.0  # never "-0.0"
    lines = [
        (
            "nodes",
            f"{data['nodes']:,} known, {data['storage_nodes']:,} of them store mail, {data['families']:,} families",
        ),
        ("network time", f"{agreed}, own clock off by {offset_s:,.1f} s"),
        ("circuits", data["circuits"] if data["circuits"] == "required" else f"off: {WITHOUT_CIRCUITS}"),
    ]
    console().print(fields("Mesh", lines), soft_wrap=True)


@app.command()
def peers(
    ctx: typer.Context, home: HomeOption = None, passphrase_file: PassphraseOption = None, as_json: JsonOption = False
) -> None:
    """List the nodes that the client knows. `restante node peers DIR` lists those that a node knows."""
    rows = run_now(_peers(opened_client(ctx, home, passphrase_file)))
    if as_json:
        print_json(rows)
        return
    from restante.views.mesh_status import known_nodes_table

    console().print(known_nodes_table(rows))


@app.command()
def lookup(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A node id or inbox key: 64 hexadecimal digits.")],
    *,
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask ever closer nodes for the nodes closest to a key, and list them.

    Exit status 1 if no node answers.
    """
    from restante.model.errors import Malformed

    try:
        target = bytes.fromhex(key)
    except ValueError:
        target = b""
    if len(target) != 32:
        raise Malformed("a key has 64 hexadecimal digits")
    rows = run_now(_lookup(opened_client(ctx, home, passphrase_file), target))
    if as_json:
        print_json(rows)
        return
    from restante.views.mesh_status import closest_nodes_table

    console().print(closest_nodes_table(rows))


@app.command()
def where(
    ctx: typer.Context,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Whose public inbox.")],
    *,
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the nodes that should store mail for an address in this hour, and whether they answer.

    For the own address also how many messages each holds: only the owner can ask for that.
    """
    from restante.wire.address import parse_address

    rows = run_now(_where(opened_client(ctx, home, passphrase_file), parse_address(address)))
    if as_json:
        print_json(rows)
        return
    from restante.views.mesh_status import holders_table

    console().print(holders_table(rows))


async def _status(client: "Client") -> dict[str, Any]:
    try:
        async with client.mesh_host() as host:
            await host.directory.ensure_fresh()
            nodes, time = host.directory.valid(), host.directory.time
            return {
                "nodes": len(nodes),
                "storage_nodes": host.directory.storage_nodes(),
                "families": len({each.family for each in nodes}),
                "is_time_agreed": time.is_agreed,
                "clock_offset_ms": time.offset_ms,
                "circuits": host.circuit_mode.value,
            }
    finally:
        await client.close()


async def _peers(client: "Client") -> list[dict[str, Any]]:
    from restante.client.mesh.connections import dial_places
    from restante.runtime.endpoints import Endpoint

    try:
        async with client.mesh_host() as host:
            await host.directory.ensure_fresh()
            return [
                {
                    "node": each.node_id.hex(),
                    "endpoints": [str(Endpoint(host=place.host, port=place.port)) for place in dial_places(each)],
                    "roles": each.roles.names,
                    "family": each.family.hex(),
                    "expires_at_ms": each.expires_at_ms,
                }
                for each in host.directory.valid()
            ]
    finally:
        await client.close()


async def _lookup(client: "Client", target: bytes) -> list[dict[str, Any]]:
    from restante.client.mesh.connections import dial_places
    from restante.client.mesh.inspection import closest

    try:
        async with client.mesh_host() as host:
            found = await closest(host.directory, target)
            return [{"node": each.node_id.hex(), "place": str(dial_places(each)[0])} for each in found]
    finally:
        await client.close()


async def _where(client: "Client", address: Any) -> list[dict[str, Any]]:
    from restante.client.mesh.inspection import holders

    try:
        async with client.mesh_host() as host:
            return [each._asdict() for each in await holders(host.directory, client.identity, address)]
    finally:
        await client.close()
