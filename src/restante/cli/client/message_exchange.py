"""Connect to the relay, send or fetch messages, disconnect: the work of `restante send`, `inbox` and `history`."""

import asyncio
import contextlib
import json
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from restante.cli.client.home import hinting
from restante.client.client import Client
from restante.model.ids import Address
from restante.model.inbox_entry import HeldBack, InboxEntry
from restante.model.kinds import Kind
from restante.model.send_receipt import Dropped, SendReceipt
from restante.runtime.system import SystemClock
from restante.views.received_messages import held_back_data, held_back_line, message_data, message_line

LOOK_S: Final = 0.05
REACH_S: Final = 5.0  # how long a relay may take to accept the connection
RECEIPTS_S: Final = 2.0  # RECEIPT acks are batched for up to a second
HISTORY_PAGE: Final = 256
MOST_MESSAGES: Final = 1_000_000
KNOWN_CONTACTS: Final = "List the contacts with 'restante contact list'."


async def send_one(
    client: Client, to: str, body: bytes, *, kind: Kind, ttl_s: int | None, timeout_s: float
) -> tuple[SendReceipt, str]:
    try:
        with hinting(KNOWN_CONTACTS):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxResult:
    """What one run of `restante inbox` did."""

    shown: int
    was_connected: bool
    held_back: int = 0


async def show_new(client: Client, *, again: bool, follow: bool, idle_timeout_s: float, as_json: bool) -> InboxResult:
    """Fetch messages and print each one that was not shown before, then those that are held back.

    With `again`, print the messages that were shown before first.
    """
    shown = 0
    try:
        if again:
            shown = await _print_shown(client, None, limit=MOST_MESSAGES, as_json=as_json)
        async with _running(client) as working:
            if follow:
                async for entry in client.inbox():
                    _print_message(client, entry, as_json=as_json)
                    shown += 1
                return InboxResult(shown=shown, was_connected=True)

            async def has_news() -> bool:
                return client.was_connected or await client.has_unread()

            await _until(has_news, working, within_s=REACH_S)
            while True:
                before = shown
                await _until(client.has_unread, working, within_s=idle_timeout_s)
                async for entry in client.inbox(follow=False):
                    _print_message(client, entry, as_json=as_json)
                    shown += 1
                if shown == before:
                    break
            await _until(client.has_acknowledged, working, within_s=idle_timeout_s + RECEIPTS_S)
            held = await client.file.run(client.received.held_back)
            _print_held_back(client, held, as_json=as_json)
            return InboxResult(shown=shown, was_connected=client.was_connected, held_back=len(held))
    finally:
        await client.close()


async def show_again(client: Client, contact: str, *, limit: int, as_json: bool) -> int:
    """Print the last `limit` messages from a contact that were shown before. Return how many there were."""
    try:
        with hinting(KNOWN_CONTACTS):
            sender = client.contacts.named(contact).address
        return await _print_shown(client, sender, limit=limit, as_json=as_json)
    finally:
        await client.close()


async def _print_shown(client: Client, sender: Address | None, *, limit: int, as_json: bool) -> int:
    found: deque[InboxEntry] = deque(maxlen=limit)
    after = -1
    now_ms = SystemClock().now_ms()
    while page := await client.file.run(
        partial(client.received.released, after=after, limit=HISTORY_PAGE, now_ms=now_ms)
    ):
        after = page[-1][0]
        entries = (entry for _, entry in page)
        found.extend(one for one in entries if one.first_read_at_ms is not None and sender in (None, one.sender))
    for entry in found:
        _print_message(client, entry, as_json=as_json)
    return len(found)


async def _until(condition: Callable[[], Awaitable[bool]], working: asyncio.Task[None], *, within_s: float) -> None:
    """Wait until the condition holds, the client stops, or the time is over."""
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
    name = _name(client, entry.sender)
    _print_line(json.dumps(message_data(entry, name)) if as_json else message_line(entry, name))


def _print_held_back(client: Client, held: Sequence[HeldBack], *, as_json: bool) -> None:
    named = [(one, _name(client, one.sender)) for one in held]
    if as_json and named:
        _print_line(json.dumps({"held_back": [held_back_data(one, name) for one, name in named]}))
    elif not as_json:
        for one, name in named:
            _print_line(held_back_line(one, name))


def _name(client: Client, address: Address) -> str:
    contact = client.contacts.get(address)
    return "?" if contact is None else contact.name


def _print_line(line: str) -> None:
    """Write to standard output directly: rich expands tabs. Flush, because `--follow` may go to a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
