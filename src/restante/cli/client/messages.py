"""`restante send` and `restante inbox`: mail by hand, encrypted end to end."""

import sys
from typing import Annotated

import typer

from restante.cli.client.home import HomeOption, PassphraseOption, opened_client
from restante.cli.client.options import JsonOption
from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.terminal import console, print_json
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import show_message_id
from restante.model.kinds import Kind
from restante.model.limits import MAX_SEALED_BYTES


def send(
    ctx: typer.Context,
    to: Annotated[str, typer.Argument(metavar="TO", help="A contact's name or address.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads it from the input.")],
    *,
    home: HomeOption = None,
    kind: Annotated[Kind, typer.Option(help="The kind of message.")] = Kind.TEXT,
    ttl_s: Annotated[int | None, typer.Option("--ttl-s", help="How long it may live, in seconds.")] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout-s", min=0, max=600, help="How long to try to reach the relay now.")
    ] = 10.0,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a message to a contact. It is on disk and will be sent, even if the relay cannot be reached now."""
    body = sys.stdin.buffer.read(MAX_SEALED_BYTES + 1) if text == "-" else text.encode("utf-8", "surrogateescape")
    if kind is Kind.CONTROL:
        raise RestanteError("control messages are Restante's own; choose another kind", code=Code.MALFORMED)
    import asyncio

    from restante.cli.client.message_exchange import send_one

    client = opened_client(ctx, home, passphrase_file)
    receipt, state = asyncio.run(send_one(client, to, body, kind=kind, ttl_s=ttl_s, timeout_s=timeout_s))
    message_id = show_message_id(receipt.message_id)
    if as_json:
        print_json({"message_id": message_id, "state": state})
    elif state == "dropped":
        console().print("Not sent: this kind travels live only, and there is no live path.")
    else:
        words = {"sent": "is at the relay", "delivered": "was received", "pending": "waits for the relay"}
        console().print(f"{message_id} {words.get(state, state)}")
    if state == "dropped":
        raise typer.Exit(EXIT_FAILURE)


def inbox(
    ctx: typer.Context,
    *,
    home: HomeOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay, and show messages as they come.")] = False,
    idle_timeout_ms: Annotated[
        int, typer.Option("--idle-timeout-ms", min=100, max=60_000, help="Stop after this long without a new message.")
    ] = 1_000,
    send_read_acks: Annotated[
        bool, typer.Option("--send-read-acks", help="Send a READ ack for each message shown.")
    ] = False,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch what the relay holds and show what was not shown before, oldest first; receipts are sent by themselves.

    With --json each message is one line.
    """
    import asyncio

    from restante.cli.client.message_exchange import show_all

    client = opened_client(ctx, home, passphrase_file)
    client.sends_read_acks = send_read_acks
    shown, reached = asyncio.run(
        show_all(client, follow=follow, idle_timeout_s=idle_timeout_ms / 1_000, as_json=as_json)
    )
    if not shown and not as_json:
        console().print("No new messages." if reached else "No new messages here; the relay could not be reached.")
