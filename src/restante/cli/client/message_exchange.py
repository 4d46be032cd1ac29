"""Connect to the relay, send or fetch messages, disconnect: the work of `restante send`, `inbox` and `history`.

While `restante run` keeps the client connected, these commands only write to and read from its file.
"""

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
from restante.cli.mesh.people import add_by_address
from restante.client.application.sent_message import NotDelivered, NotYetDelivered
from restante.client.client import Client
from restante.client.outbox_types import Status
from restante.model.ids import Address, MessageId
from restante.model.inbox_entry import HeldBack, InboxEntry
from restante.model.kinds import Kind
from restante.model.send_receipt import Dropped
from restante.model.states import State
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.system import SystemClock
from restante.views.received_messages import held_back_data, held_back_line, message_data, message_line
from restante.wire.address import parse_address

LOOK_S: Final = 0.05
REACH_S: Final = 15.0  # how long a place may take to answer; a mesh asks several nodes first
RECEIPTS_S: Final = 2.0  # RECEIPT acks are batched for up to a second
HISTORY_PAGE: Final = 256
MOST_MESSAGES: Final = 1_000_000
KNOWN_CONTACTS: Final = "List the contacts with 'restante contact list'."


async def send_one(
    client: Client,
    to: str,
    body: bytes,
    *,
    kind: Kind,
    ttl_s: int | None,
    timeout_s: float,
    until_delivered: bool,
    is_run_elsewhere: bool,
    add_as: str | None = None,
) -> tuple[MessageId, Status | None]:
    """Accept the message, then wait until it is stored at a place, or with `until_delivered` until it is received.

    With `add_as`, `to` is an address whose owner becomes a contact under this name first. Return the message's id and
    status, None for a kind that is never queued.
    """
    try:
        if add_as is not None:
            await add_by_address(client, add_as, parse_address(to))
        with hinting(KNOWN_CONTACTS):
            contact = client.contacts.named(to)
        sent = await client.send(contact, body, kind=kind, ttl_s=ttl_s)
        if isinstance(sent.outcome, Dropped):
            return sent.message_id, None

        async def has_left() -> bool:
            status = await client.status(sent.message_id)
            return status is None or status.state not in (State.PENDING, State.SENDING)

        async with _running(client, is_run_elsewhere=is_run_elsewhere) as working:
            if until_delivered:
                with contextlib.suppress(NotDelivered, NotYetDelivered):
                    await sent.delivered(timeout=timeout_s)
            else:
                await _until(has_left, working, within_s=timeout_s)
        return sent.message_id, await client.status(sent.message_id)
    finally:
        await client.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxResult:
    """What one run of `restante inbox` did."""

    shown: int
    was_connected: bool
    held_back: int = 0
    failure: AttemptFailed | None = None


async def show_new(
    client: Client, *, again: bool, follow: bool, idle_timeout_s: float, as_json: bool, is_run_elsewhere: bool
) -> InboxResult:
    """Fetch messages and print each one that was not shown before, then those that are held back.

    With `again`, print the messages that were shown before first.
    """
    shown = 0
    try:
        if again:
            shown = await _print_shown(client, None, limit=MOST_MESSAGES, as_json=as_json)
        async with _running(client, is_run_elsewhere=is_run_elsewhere) as working:
            if follow:
                async for message in client.inbox():
                    _print_message(client, message.entry, as_json=as_json)
                    shown += 1
                return InboxResult(shown=shown, was_connected=True)

            async def is_settled() -> bool:  # each of its inboxes was reached, or one could not be
                return is_run_elsewhere or client.was_connected or client.connection_failure is not None

            await _until(is_settled, working, within_s=REACH_S)
            while True:
                before = shown
                await _until(client.has_unread, working, within_s=idle_timeout_s)
                async for message in client.inbox(follow=False):
                    _print_message(client, message.entry, as_json=as_json)
                    shown += 1
                if shown == before:
                    break
            await _until(client.has_acknowledged, working, within_s=idle_timeout_s + RECEIPTS_S)
            held = await client.file.run(client.received.held_back)
            _print_held_back(client, held, as_json=as_json)
            return InboxResult(
                shown=shown,
                was_connected=client.was_connected or is_run_elsewhere,
                held_back=len(held),
                failure=client.connection_failure,
            )
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def fetching(
    client: Client,
    *,
    is_run_elsewhere: bool,
    until: Callable[[], Awaitable[bool]] | None = None,
    within_s: float = REACH_S,
) -> AsyncIterator[None]:
    """Run the client, and enter the block when a place was read or cannot be reached, or when `until` holds."""

    async def is_settled() -> bool:
        return is_run_elsewhere or client.was_connected or client.connection_failure is not None

    async with _running(client, is_run_elsewhere=is_run_elsewhere) as working:
        await _until(until or is_settled, working, within_s=within_s)
        yield


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


async def _until(condition: Callable[[], Awaitable[bool]], working: asyncio.Future[None], *, within_s: float) -> None:
    """Wait until the condition holds, the client stops, or the time is over."""
    for _ in range(round(within_s / LOOK_S)):
        if working.done() or await condition():
            return
        await asyncio.sleep(LOOK_S)


@contextlib.asynccontextmanager
async def _running(client: Client, *, is_run_elsewhere: bool) -> AsyncIterator[asyncio.Future[None]]:
    """Run the client until the block ends, unless another process does."""
    if is_run_elsewhere:
        yield asyncio.get_running_loop().create_future()
        return
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
