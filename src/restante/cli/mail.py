"""`restante send` and `restante inbox`: mail by hand, encrypted end to end."""

import asyncio
import base64
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from restante.cli import show
from restante.cli.advice import EXIT_FAILURE
from restante.cli.client_home import HomeOption, PassphraseOption, opened_client
from restante.cli.client_options import JsonOption
from restante.cli.terminal import console, print_json
from restante.model.codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import show_message_id
from restante.model.kinds import Kind
from restante.model.limits import MAX_SEALED_BYTES

if TYPE_CHECKING:
    from restante.client.client import Client
    from restante.model.records import InboxEntry, Receipt

LOOK_S: Final = 0.05
RECEIPTS_S: Final = 2.0  # they wait up to a second for company


def send(
    ctx: typer.Context,
    to: Annotated[str, typer.Argument(metavar="TO", help="A contact's name or address.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads it from the input.")],
    *,
    home: HomeOption = None,
    kind: Annotated[Kind, typer.Option(help="The kind of message.")] = Kind.TEXT,
    ttl_s: Annotated[int | None, typer.Option("--ttl-s", help="How long it may live, in seconds.")] = None,
    wait_s: Annotated[
        float, typer.Option("--wait-s", min=0, max=600, help="How long to try to reach the relay now.")
    ] = 10.0,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a message to a contact. It is on disk and will be sent, even if the relay cannot be reached now."""
    body = sys.stdin.buffer.read(MAX_SEALED_BYTES + 1) if text == "-" else text.encode("utf-8", "surrogateescape")
    if kind is Kind.CONTROL:
        raise RestanteError("control messages are Restante's own; choose another kind", code=Code.MALFORMED)
    receipt, state = asyncio.run(
        _send(opened_client(ctx, home, passphrase_file), to, body, kind=kind, ttl_s=ttl_s, wait_s=wait_s)
    )
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
    quiet_ms: Annotated[
        int, typer.Option("--quiet-ms", min=100, max=60_000, help="Nothing for so long means: that was all.")
    ] = 1_000,
    read_acks: Annotated[
        bool, typer.Option("--read-acks", help="Tell the senders that their messages were read.")
    ] = False,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch what the relay holds and show what was not shown before, oldest first; receipts are sent by themselves.

    With --json each message is one line.
    """
    client = opened_client(ctx, home, passphrase_file)
    client.sends_read_acks = read_acks
    shown, reached = asyncio.run(_show(client, follow=follow, quiet_s=quiet_ms / 1_000, as_json=as_json))
    if not shown and not as_json:
        console().print("No new messages." if reached else "No new messages here; the relay could not be reached.")


async def _send(
    client: "Client", to: str, body: bytes, *, kind: Kind, ttl_s: int | None, wait_s: float
) -> tuple["Receipt", str]:
    from restante.model.records import Dropped

    try:
        receipt = await client.send(client.contacts.named(to).address, body, kind=kind, ttl_s=ttl_s)
        if isinstance(receipt.deliveries[0].outcome, Dropped):
            return receipt, "dropped"

        async def state() -> str:
            status = await client.outbox.status(receipt.message_id)
            return "gone" if status is None else status.state.value

        async def has_left() -> bool:
            return await state() not in ("pending", "sending")

        async with _running(client) as working:
            await _until(has_left, working, within_s=wait_s)
        return receipt, await state()
    finally:
        await client.close()


async def _show(client: "Client", *, follow: bool, quiet_s: float, as_json: bool) -> tuple[int, bool]:
    """How many were shown, and whether the relay was reached."""
    shown = 0
    try:
        async with _running(client) as working:
            if follow:
                async for entry in client.inbox():
                    _print_message(client, entry, as_json=as_json)
                    shown += 1
                return shown, True
            while True:
                before = shown
                await _until(client.has_unread, working, within_s=quiet_s)
                async for entry in client.inbox(follow=False):
                    _print_message(client, entry, as_json=as_json)
                    shown += 1
                if shown == before:
                    break
            await _until(client.has_acknowledged, working, within_s=quiet_s + RECEIPTS_S)
            return shown, client.was_connected
    finally:
        await client.close()


async def _until(condition: Callable[[], Awaitable[bool]], working: "asyncio.Task[None]", *, within_s: float) -> None:
    """Until it holds, the client has stopped, or the time is over."""
    for _ in range(round(within_s / LOOK_S)):
        if working.done() or await condition():
            return
        await asyncio.sleep(LOOK_S)


@contextlib.asynccontextmanager
async def _running(client: "Client") -> AsyncIterator["asyncio.Task[None]"]:
    working = asyncio.create_task(client.run())
    try:
        yield working
        if working.done():
            await working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def _print_message(client: "Client", entry: "InboxEntry", *, as_json: bool) -> None:
    import json

    contact = client.contacts.get(entry.sender)
    name = contact.name if contact is not None else "?"
    if as_json:
        sys.stdout.write(json.dumps(_message_data(entry, name)) + "\n")
        sys.stdout.flush()
        return
    late = " (late)" if entry.is_late else ""
    text = (
        entry.plaintext.decode("utf-8", "replace")
        if entry.kind is not Kind.MEDIA
        else f"{len(entry.plaintext):,} bytes"
    )
    body = "\n".join(show.printable(line) for line in text.split("\n"))
    console().print(f"{show.moment(entry.received_at_ms)}  {name}{late}  {body}", markup=False, soft_wrap=True)


def _message_data(entry: "InboxEntry", name: str) -> dict[str, Any]:
    data: dict[str, Any] = {
        "message_id": show_message_id(entry.message_id),
        "from": name,
        "kind": entry.kind.value,
        "received_at_ms": entry.received_at_ms,
        "sequence": entry.sequence_number,
        "is_late": entry.is_late,
    }
    try:
        data["text"] = entry.plaintext.decode("utf-8")
    except UnicodeDecodeError:
        data["base64"] = base64.b64encode(entry.plaintext).decode()
    return data
