"""Hands received messages to the application, in order, page by page from disk (SPEC 9.8).

A message is shown again after a restart until it is acked. Without explicit acks, asking for the next message acks the
one before. A relative TTL starts, and READ goes out, when a message is first shown. RECEIPT waits for none of this.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Final

from restante.client.contacts import ContactBook
from restante.model.errors import Malformed, StoreUnusable
from restante.model.ids import Address, MessageId
from restante.model.inbox_entry import InboxEntry
from restante.model.kinds import Kind
from restante.ports.clock import Clock
from restante.runtime.event_wait import set_or_after
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.runtime.sqlite.inbox.store import SqliteInbox

PAGE: Final = 256
LOOK_AGAIN_S: Final = 1.0
"""Another process of this client's file may have received a message. No portable call reports a commit of another
process, so the file is read once a second: 9 µs of CPU each time. Messages that this process receives wake the reader.
"""


class ReceivedMessage:
    """One message for the application. `entry` has everything the inbox stores of it (SPEC 9.6)."""

    __slots__ = ("_ack", "_place", "entry", "sender_name")

    def __init__(self, entry: InboxEntry, *, sender_name: str, place: int, ack: "InboxReader") -> None:
        self.entry = entry
        self.sender_name = sender_name
        self._place = place
        self._ack = ack

    def __repr__(self) -> str:
        return f"ReceivedMessage({self.entry.kind.value}, {len(self.body)} bytes)"

    @property
    def message_id(self) -> MessageId:
        return self.entry.message_id

    @property
    def sender(self) -> Address:
        return self.entry.sender

    @property
    def kind(self) -> Kind:
        return self.entry.kind

    @property
    def body(self) -> bytes:
        return self.entry.plaintext

    @property
    def text(self) -> str:
        """The body as UTF-8 text. Raises `Malformed` if it is not."""
        try:
            return self.entry.plaintext.decode("utf-8")
        except UnicodeDecodeError:
            raise Malformed("the body of this message is not UTF-8 text; read `body`") from None

    @property
    def received_at_ms(self) -> int:
        return self.entry.received_at_ms

    @property
    def is_late(self) -> bool:
        """Whether later messages of its session were shown before it (SPEC 9.5)."""
        return self.entry.is_late

    async def ack(self) -> None:
        """State that the application has processed the message; it is not shown again. Durable on return."""
        await self._ack.ack(self._place)


class InboxReader:
    """Pages of unread messages, and their acks."""

    def __init__(
        self,
        file: ClientFile,
        inbox: SqliteInbox,
        *,
        contacts: ContactBook,
        clock: Clock,
        sends_read_acks: bool,
        on_read: Callable[[], None],
    ) -> None:
        """`on_read` is called when READ acks became pending."""
        self.sends_read_acks = sends_read_acks
        self._file = file
        self._inbox = inbox
        self._contacts = contacts
        self._clock = clock
        self._on_read = on_read
        self._news = asyncio.Event()
        self._wakes = 0
        self._failure: BaseException | None = None
        self._closed = asyncio.Event()
        self._processed: set[int] = set()  # places whose ack is not on disk yet
        self._acking: asyncio.Future[None] | None = None
        self._ack_failure: Exception | None = None

    def wake(self) -> None:
        """Look for new messages now."""
        self._wakes += 1
        self._news.set()

    def fail(self, failure: BaseException) -> None:
        """Raise `failure` from every iteration that waits: nothing will arrive any more."""
        self._failure = failure
        self.wake()

    def close(self) -> None:
        """End every iteration."""
        self._closed.set()
        self.wake()

    async def messages(self, *, follow: bool, explicit_acks: bool) -> AsyncGenerator[ReceivedMessage, None]:
        after = -1
        while not self._closed.is_set():
            wakes = self._wakes
            try:
                self._raise_ack_failure()
                page, is_last = await self._file.read(partial(self._unread, after))
            except StoreUnusable:
                if self._closed.is_set():
                    return
                raise
            for place, entry in page:
                after = place
                if self._counts_when_shown(entry):
                    await self._file.run(partial(self._show, place))
                contact = self._contacts.get(entry.sender)
                yield ReceivedMessage(entry, sender_name="" if contact is None else contact.name, place=place, ack=self)
                if not explicit_acks:
                    self._ack_soon(place)
            if not is_last or self._wakes != wakes:
                continue
            if self._failure is not None:
                raise self._failure
            if not follow:
                return
            self._news.clear()
            await set_or_after(self._news, LOOK_AGAIN_S)

    async def ack(self, place: int) -> None:
        await self._file.run(partial(self._mark_acked, [place]))

    async def has_unread(self) -> bool:
        unread, _ = await self._file.read(partial(self._unread, -1))
        return bool(unread)

    async def finished(self) -> None:
        """Return once every ack that began is on disk, or has failed."""
        if self._acking is not None and not self._is_acking():
            self._ack_processed()
        while (acking := self._acking) is not None:
            with contextlib.suppress(StoreUnusable):
                await self._file.run(lambda: None)  # what waits for the next commit joins this one
            await asyncio.wait([acking])

    def _ack_soon(self, place: int) -> None:
        self._processed.add(place)
        if not self._is_acking():
            self._ack_processed()

    def _is_acking(self) -> bool:
        """Return whether acks are on their way to disk. Those that an ended event loop left never arrive."""
        return self._acking is not None and not self._acking.get_loop().is_closed()

    def _ack_processed(self) -> None:
        """Ack all that was processed so far, with the next commit."""
        places = sorted(self._processed)
        self._acking = self._file.run_later(partial(self._mark_acked, places))
        self._acking.add_done_callback(partial(self._acked, places))

    def _acked(self, places: Sequence[int], acking: "asyncio.Future[None]") -> None:
        """Go on with what was processed meanwhile. A failure is raised by the next step of an iteration."""
        self._acking = None
        failure = acking.exception()
        if isinstance(failure, Exception):
            self._ack_failure = failure
            return
        self._processed.difference_update(places)
        if self._processed:
            self._ack_processed()

    def _raise_ack_failure(self) -> None:
        failure, self._ack_failure = self._ack_failure, None
        if failure is not None:
            raise failure

    def _counts_when_shown(self, entry: InboxEntry) -> bool:
        """Return whether the first show must be on disk first: it starts a relative TTL or queues a READ ack.

        An unread message has an expiry unless its TTL is relative. All others are marked with their ack, in one commit.
        """
        return entry.first_read_at_ms is None and (self.sends_read_acks or entry.expires_at_ms is None)

    def _unread(self, after: int) -> tuple[list[tuple[int, InboxEntry]], bool]:
        """Return the next messages that are not acked, and whether there are no others in the file."""
        if after < 0:
            first = self._inbox.first_unacked()
            if first is None:
                return [], True
            after = first - 1
        while True:
            page = self._inbox.released(after=after, limit=PAGE, now_ms=self._clock.now_ms())
            unread = [
                (place, entry) for place, entry in page if entry.acked_at_ms is None and place not in self._processed
            ]
            is_last = len(page) < PAGE
            if unread or is_last:
                return unread, is_last
            after = page[-1][0]

    def _show(self, place: int) -> None:
        """Mark a message as read that is shown now."""
        self._inbox.mark_read(place, now_ms=self._clock.now_ms(), acknowledge=self.sends_read_acks)
        if self.sends_read_acks:
            self._on_read()

    def _mark_acked(self, places: Sequence[int]) -> None:
        self._inbox.mark_acked(places, now_ms=self._clock.now_ms())
