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

from restante.cli.client.home import hinting, hinting_new_prekeys
from restante.cli.client.running_client import RunningClient
from restante.cli.mesh.people import add_by_address, is_address
from restante.cli.terminal import warn
from restante.client.application.sent_message import NotDelivered, NotYetDelivered
from restante.client.client import Client
from restante.client.contacts import Contact
from restante.client.outbox_types import Status
from restante.client.places.read_results import StillReading
from restante.client.places.reading_status import ReadingStatus
from restante.client.service import report_connection
from restante.model.error_codes import Code
from restante.model.ids import Address, MessageId
from restante.model.inbox_entry import HeldBack, InboxEntry
from restante.model.kinds import Kind
from restante.model.outbox_entry import OutboxEntry
from restante.model.send_receipt import Dropped
from restante.model.states import DropReason, State
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
NEW_CONTACT: Final = "Add its owner: with --add NAME from the mesh, or 'restante contact add NAME FILE'."


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """What one run of `restante send` did. `status` is None for a kind that is never queued."""

    message_id: MessageId
    status: Status | None = None
    dropped: DropReason | None = None
    first_unsent: OutboxEntry | None = None
    now_ms: int = 0

    @property
    def state(self) -> str:
        return "dropped" if self.status is None else self.status.state.value

    @property
    def last_error(self) -> Code | None:
        """Why the message, or the one that its lane waits for, was not sent."""
        own = None if self.status is None else self.status.last_error
        return own if self.first_unsent is None or own is not None else self.first_unsent.last_error

    @property
    def next_attempt_at_ms(self) -> int | None:
        """When the lane is tried again; None if that may be now."""
        at_ms = None if self.first_unsent is None else self.first_unsent.next_attempt_at_ms
        return at_ms if at_ms is not None and at_ms > self.now_ms else None


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
    on_accepted: Callable[[MessageId], None],
    add_as: str | None = None,
) -> SendResult:
    """Accept the message, then wait until it is stored at a place, or with `until_delivered` until it is received.

    With `add_as`, `to` is an address whose owner becomes a contact under this name first. The client runs while a full
    outbox makes it wait: what it sends makes space.
    """
    try:
        if add_as is not None:
            await add_by_address(client, add_as, parse_address(to))
        if is_address(to):
            parse_address(to)  # says what is wrong with a mistyped one
        with hinting(NEW_CONTACT if is_address(to) else KNOWN_CONTACTS):
            contact = client.contacts.named(to)
        async with _running(client, is_run_elsewhere=is_run_elsewhere) as working:
            with hinting_new_prekeys():
                sent = await client.send(contact, body, kind=kind, ttl_s=ttl_s)
            if isinstance(sent.outcome, Dropped):
                return SendResult(message_id=sent.message_id, dropped=sent.outcome.reason)
            on_accepted(sent.message_id)

            async def has_left() -> bool:
                status = await client.status(sent.message_id)
                return status is None or status.state not in (State.PENDING, State.SENDING)

            if until_delivered:
                with contextlib.suppress(NotDelivered, NotYetDelivered):
                    await sent.delivered(timeout=timeout_s)
            else:
                await _until(has_left, working, within_s=timeout_s)
        status = await client.status(sent.message_id)
        is_pending = status is not None and status.state is State.PENDING
        first = await client.file.run(partial(_first_unsent, client, contact)) if is_pending else None
        return SendResult(message_id=sent.message_id, status=status, first_unsent=first, now_ms=client.now_ms())
    finally:
        await client.close()


def _first_unsent(client: Client, contact: Contact) -> OutboxEntry | None:
    """Return the entry that the lane of a contact waits for. Part of a transaction."""
    lanes, store = client.outbox.store.lanes, client.outbox.store
    lane = lanes.get(lanes.route_of(contact.lane, contact.route), contact.lane)
    unsent = [] if lane is None else lanes.unsent(lane)
    return store.load(unsent[0].message_id) if unsent else None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxResult:
    """What one run of `restante inbox` did."""

    shown: int
    was_connected: bool
    held_back: int = 0
    requests: int = 0
    failure: AttemptFailed | None = None
    running: ReadingStatus | None = None
    """What the process said that keeps the client connected, if one does."""


async def show_new(
    client: Client, *, again: bool, follow: bool, idle_timeout_s: float, as_json: bool, running: RunningClient | None
) -> InboxResult:
    """Fetch messages and print each one that was not shown before, then those that are held back.

    With `again`, print the messages that were shown before first. `running` fetches instead, if it is given.
    """
    shown = 0
    try:
        if again:
            shown = await _print_shown(client, None, limit=MOST_MESSAGES, as_json=as_json)
        async with _running(client, is_run_elsewhere=running is not None) as working:
            if follow:
                say = partial(warn, as_json=as_json)
                reporting = asyncio.create_task(
                    report_connection(client, say) if running is None else running.report(say)
                )
                try:
                    async for message in client.inbox():
                        _print_message(client, message.entry, as_json=as_json)
                        shown += 1
                finally:
                    reporting.cancel()
                return InboxResult(shown=shown, was_connected=True)

            status = await _settled(client, running, working)
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
                was_connected=client.was_connected if status is None else status.is_read,
                held_back=len(held),
                requests=len(await client.parts.requests.all()),
                failure=client.connection_failure,
                running=status,
            )
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def fetching(
    client: Client,
    *,
    running: RunningClient | None,
    until: Callable[[], Awaitable[bool]] | None = None,
    within_s: float = REACH_S,
) -> AsyncIterator[ReadingStatus | None]:
    """Run the client, and enter the block when a place was read or cannot be reached, or when `until` holds.

    If another process runs it, yield what that one says, unless `until` is given.
    """
    async with _running(client, is_run_elsewhere=running is not None) as working:
        if until is not None:
            await _until(until, working, within_s=within_s)
            yield None
        else:
            yield await _settled(client, running, working)


async def _settled(
    client: Client, running: RunningClient | None, working: asyncio.Future[None]
) -> ReadingStatus | None:
    """Wait until each inbox was read or tried; return what the process says that runs the client, if one does."""
    if running is not None:
        return await running.settled(within_s=REACH_S)
    await _until(partial(_is_settled, client), working, within_s=REACH_S)
    return None


async def _is_settled(client: Client) -> bool:
    """Return whether each inbox was reached, or each was tried and one could not be."""
    failure = client.connection_failure
    return client.was_connected or (failure is not None and not isinstance(failure, StillReading))


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
