"""`restante relay`: send single requests to a relay, to find out what is wrong."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from restante.cli.client.options import JsonOption
from restante.cli.terminal import console, print_json, warn
from restante.model.errors import ConfigurationInvalid
from restante.model.limits import MAX_SEALED_BYTES
from restante.views.text_tables import table

if TYPE_CHECKING:
    from restante.model.places import RelayPlace

RELAY_VARIABLE: Final = "RESTANTE_RELAY"
MOST_PUTS: Final = 100_000

EXAMPLES = """\
[bold]Examples[/bold]

  export RESTANTE_RELAY=KEY@127.0.0.1:7431     as 'node status' prints it

  restante relay put --identity ./my.key            a test message for that identity
  restante relay put --identity ./my.key --count 100 --size 1024
  restante relay put letter.bin                an envelope from a file
  restante relay flush --identity ./my.key          what the relay stores for it
  restante relay flush --identity ./my.key --delete and delete it there
"""

app = typer.Typer(
    help="Test a relay: put envelopes, and list what it stores for an identity.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)

RelayOption = Annotated[
    str | None,
    typer.Option("--relay", metavar="KEY@HOST:PORT", envvar=RELAY_VARIABLE, help="The relay: its key, host and port."),
]


@app.command()
def put(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="An envelope; - reads it from the input.")] = None,
    *,
    relay: RelayOption = None,
    identity: Annotated[
        Path | None, typer.Option("--identity", metavar="FILE", help="Make test envelopes for this identity instead.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", metavar="ADDRESS", help="Make test envelopes for this address instead.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=MOST_PUTS, help="How many test envelopes.")] = 1,
    size: Annotated[int, typer.Option(min=1, max=MAX_SEALED_BYTES, help="Sealed bytes in each.")] = 1_024,
    ttl_hours: Annotated[int, typer.Option(min=1, max=24 * 60, help="TTL of each test envelope.")] = 24,
    as_json: JsonOption = False,
) -> None:
    """Put envelopes and wait until the relay has them on disk.

    A test envelope holds random bytes. Its recipient cannot decrypt it.
    """
    from restante.cli.client.relay_requests import put_all, random_envelopes, read_envelope

    pinned = _pinned(relay)
    if sum(one is not None for one in (file, identity, address)) != 1:
        raise ConfigurationInvalid("give one of FILE, --identity FILE and --address ADDRESS")
    if file is not None:
        envelopes = [read_envelope(file)]
    else:
        envelopes = random_envelopes(identity, address, relay=pinned, count=count, size=size, hours=ttl_hours)
    stored, seconds = put_all(pinned, envelopes)
    if as_json:
        print_json({"stored": [one.data() for one in stored], "seconds": round(seconds, 6)})
        return
    total = sum(one.size_bytes for one in stored)
    out = console()
    out.print(f"{len(stored):,} on the relay's disk, {total:,} bytes, in {seconds * 1_000:,.1f} ms")
    if len(stored) == 1:
        out.print(f"sealed bytes have SHA-256 {stored[0].payload_hash}", soft_wrap=True)


@app.command()
def flush(
    *,
    relay: RelayOption = None,
    identity: Annotated[
        Path | None, typer.Option("--identity", metavar="FILE", help="The file of the identity.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the listed messages at the relay.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="List at most this many.")] = 1_000,
    idle_timeout_ms: Annotated[
        int, typer.Option("--idle-timeout-ms", min=10, max=60_000, help="Stop after this long without another message.")
    ] = 500,
    as_json: JsonOption = False,
) -> None:
    """List what the relay stores for an identity, oldest first. It stays there unless --delete is given.

    The command proves to the relay that it has the identity's key. It does not send the key.
    """
    from restante.cli.client.relay_requests import flush_all
    from restante.runtime.system import SystemClock
    from restante.views import formatting

    pinned = _pinned(relay)
    if identity is None:
        raise ConfigurationInvalid("no identity given: add --identity FILE, an identity's file")
    held = flush_all(pinned, identity, delete=delete, limit=limit, idle_timeout_ms=idle_timeout_ms)
    if len(held) == limit:
        warn(f"stopped after {limit:,} messages, there may be more: raise --limit", as_json=as_json)
    if as_json:
        print_json({"deleted": delete, "limit_reached": len(held) == limit, "messages": [one.data() for one in held]})
        return
    out = console()
    if not held:
        out.print("The relay stores nothing for this identity.")
        return
    now_ms = SystemClock().now_ms()
    rows = [
        (
            str(one.blob_id),
            formatting.away(one.stored_at_ms, now_ms),
            formatting.away(one.expires_at_ms, now_ms) if one.expires_at_ms else "?",
            f"{one.size_bytes:,}",
            one.payload_hash or "not readable",
        )
        for one in held
    ]
    title = f"{'Listed and deleted' if delete else 'Stored'}: {len(held):,}"
    right = ("number", "stored", "expires", "bytes")
    out.print(table(title, "number", "stored", "expires", "bytes", "SHA-256", rows=rows, right=right, dense=True))


def _pinned(relay: str | None) -> "RelayPlace":
    from restante.runtime.endpoints import parse_relay_place

    if relay is None:
        raise ConfigurationInvalid(
            f"no relay given: add --relay KEY@HOST:PORT, or set {RELAY_VARIABLE}; 'restante node status' prints it"
        )
    return parse_relay_place(relay)
