"""One visit to one's mail: connect, send or fetch, leave. What `restante send` and `restante inbox` do."""

import asyncio
import base64
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from restante.cli.client.home import hinting
from restante.client.client import Client
from restante.model.ids import show_message_id
from restante.model.inbox_entry import InboxEntry
from restante.model.kinds import Kind
from restante.model.send_receipt import Dropped, SendReceipt
from restante.views import formatting

LOOK_S: Final = 0.05
REACH_S: Final = 5.0  # how long a relay may take to let us in, before its silence counts as having nothing
RECEIPTS_S: Final = 2.0  # they wait up to a second for company


async def send_one(
    client: Client, to: str, body: bytes, *, kind: Kind, ttl_s: int | None, timeout_s: float
) -> tuple[SendReceipt, str]:
    try:
        with hinting("See who is known with 'restante contact list'."):
            contact = client.contacts.named(to)
        receipt = await client.send(contact.address, body, kind=kind, ttl_s=ttl_s)
        if isinstance(receipt.deliveries[0].outcome, Dropped):
            return receipt, "dropped"

        async def state() -> str:
            status = await client.outbox.status(receipt.message_id)
            return "gone" if status is None else status.state.value

        async def has_left() -> bool:
            return await state() not in ("pending", "sending")

        async with _running(client) as working:
            await _until(has_left, working, within_s=timeout_s)
        return receipt, await state()
    finally:
        await client.close()


async def show_all(client: Client, *, follow: bool, idle_timeout_s: float, as_json: bool) -> tuple[int, bool]:
    """How many were shown, and whether the relay was reached."""
    shown = 0
    try:
        async with _running(client) as working:
            if follow:
                async for entry in client.inbox():
                    _print_message(client, entry, as_json=as_json)
                    shown += 1
                return shown, True

            async def has_something_to_say() -> bool:
                return client.was_connected or await client.has_unread()

            await _until(has_something_to_say, working, within_s=REACH_S)
            while True:
                before = shown
                await _until(client.has_unread, working, within_s=idle_timeout_s)
                async for entry in client.inbox(follow=False):
                    _print_message(client, entry, as_json=as_json)
                    shown += 1
                if shown == before:
                    break
            await _until(client.has_acknowledged, working, within_s=idle_timeout_s + RECEIPTS_S)
            return shown, client.was_connected
    finally:
        await client.close()


async def _until(condition: Callable[[], Awaitable[bool]], working: asyncio.Task[None], *, within_s: float) -> None:
    """Until it holds, the client has stopped, or the time is over."""
    for _ in range(round(within_s / LOOK_S)):
        if working.done() or await condition():
            return
        await asyncio.sleep(LOOK_S)


@contextlib.asynccontextmanager
async def _running(client: Client) -> AsyncIterator[asyncio.Task[None]]:
    working = asyncio.create_task(client.run())
    try:
        yield working
        if working.done():
            await working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def _print_message(client: Client, entry: InboxEntry, *, as_json: bool) -> None:
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
    line = f"{formatting.moment(entry.received_at_ms)}  {name}{late}  {formatting.safe_text(text)}\n"
    sys.stdout.write(line)  # not through rich, which expands tabs
    sys.stdout.flush()


def _message_data(entry: InboxEntry, name: str) -> dict[str, Any]:
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
