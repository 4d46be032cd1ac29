"""Deliver messages to chat platforms: render, cut, queue all chunks at once, send them in order (SPEC 12).

    channels = Channels.open("mail.db", registered_channels(Path("restante.toml"), os.environ))
    await channels.deliver(ChannelMessage(channel="ops", chat="-100123", markdown="**Disk full** on `db1`"))
    await channels.run()

The queue is the outbox's route `channel`. Its limits, retries, dead letters, events and journal apply to chunks, too.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from restante.client.channel_carrier import ChannelCarrier
from restante.client.channel_key import open_seal
from restante.client.chunk_sender import ChunkSenderContext
from restante.client.outbox import Outbox
from restante.client.outbox_types import Destination, Drained, Message
from restante.core.channel_chunks import ChannelMessage, RenderedChunk, Stop, check_chat, chunk_id, lane_of, plan
from restante.core.outbox_events import OutboxEventType
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.error_codes import Code
from restante.model.errors import DuplicateMessageId, RestanteError, TooLarge
from restante.model.ids import MessageId
from restante.model.states import Route, State
from restante.policy.channel_platforms import RULES, Platform
from restante.policy.channel_retry import smaller_limit
from restante.policy.settings import Settings
from restante.ports.carrier import Carrier
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.runtime.channels.adapter_pool import AdapterPool, ChannelHealth
from restante.runtime.channels.channel_config import Registered
from restante.runtime.channels.chunking import Rendered, chunk, render
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.channel_chunk import GROUP_ID_BYTES, ChannelChunk, GroupId, Strategy, encode_chunk

__all__ = ["ChannelMessage", "Channels", "ChunkEnd", "Enqueued", "Skipped", "Stop", "Strategy"]

EMPTY: Final = "empty"
IN_A_THREAD_CHARS: Final = 16_384  # rendering more would hold up the loop for longer than a commit
_ENDS: Final[Mapping[OutboxEventType, State]] = {
    OutboxEventType.DELIVERED: State.DELIVERED,
    OutboxEventType.DEAD_LETTERED: State.DEAD,
    OutboxEventType.EXPIRED: State.EXPIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """All chunks are on disk; each is a message of the outbox."""

    delivery_id: GroupId
    message_ids: tuple[MessageId, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was queued. The reason is `empty` or the one of the before hook."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkEnd:
    """How a chunk ended, for the after hook. `name` is the platform's message id."""

    message_id: MessageId
    chunk: ChannelChunk
    state: State
    code: str | None
    name: str | None


BeforeHook = Callable[[ChannelMessage], Awaitable[ChannelMessage | Stop]]
AfterHook = Callable[[ChunkEnd], Awaitable[None]]


class Channels:
    """One outbox and the channels of one configuration."""

    def __init__(
        self,
        outbox: Outbox,
        channels: Mapping[str, Registered],
        *,
        seal: StorageSeal,
        clock: Clock,
        entropy: Entropy,
        before: BeforeHook | None = None,
        after: AfterHook | None = None,
    ) -> None:
        """Borrow an outbox. `seal` seals the chunks on disk: use the same one as long as chunks are in this outbox."""
        self.outbox = outbox
        self._entropy = entropy
        self._before = before
        self._adapters = AdapterPool(channels, clock=clock, when_ready=outbox.wake)
        self._seal = seal
        self._host = ChunkSenderContext(outbox=outbox, seal=seal, adapters=self._adapters, clock=clock, entropy=entropy)
        self._is_started = False
        self._after = after
        self._seen: dict[MessageId, tuple[ChannelChunk, str | None]] = {}
        self._ends: deque[ChunkEnd] = deque()
        self._telling: asyncio.Task[None] | None = None
        outbox.on_event(self._changed)

    @classmethod
    def open(
        cls,
        path: Path | str,
        channels: Mapping[str, Registered],
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        before: BeforeHook | None = None,
        after: AfterHook | None = None,
    ) -> "Channels":
        """Open the channels with the outbox in this file. The file and its key beside it are created if needed.

        `before` may replace or stop a message. `after` is called for each ended chunk that this process queued or sent.
        """
        clock, entropy = clock or SystemClock(), entropy or SystemEntropy()
        outbox = Outbox.open(path, settings=settings, clock=clock, entropy=entropy)
        try:
            seal = open_seal(Path(path), outbox.file.journal, entropy)
        except BaseException:
            outbox.abandon()
            raise
        return cls(outbox, channels, seal=seal, clock=clock, entropy=entropy, before=before, after=after)

    async def deliver(self, message: ChannelMessage, *, delivery_id: bytes | None = None) -> Enqueued | Skipped:
        """Queue a message for a chat. When this returns, either all of its chunks are on disk or none is (SPEC 12.1).

        A `delivery_id` of 16 random bytes makes the call safe to repeat: the second one raises `DuplicateMessageId`.
        Raises `OutboxFull`, and `RestanteError` with E121 for a channel that is not in the configuration.
        """
        if message.is_empty:
            return Skipped(EMPTY)
        if self._before is not None:
            answer = await self._before(message)
            if isinstance(answer, Stop):
                return Skipped(answer.reason)
            message = answer
        platform = self._adapters.platform(message.channel)
        if platform is None:
            raise RestanteError("there is no such channel in the configuration", code=Code.CHANNEL_ABSENT)
        check_chat(message.chat)
        group = GroupId(self._entropy.draw(GROUP_ID_BYTES) if delivery_id is None else delivery_id)
        too_many = self.outbox.max_entries + 1
        if len(message.markdown) > IN_A_THREAD_CHARS:
            made = await asyncio.to_thread(prepare, message, platform, group, too_many)
        else:
            made = prepare(message, platform, group, too_many)
        if not made:
            return Skipped(EMPTY)
        return await self._enqueue(message, made, group)

    async def start(self) -> None:
        """Start the adapters; those that fail are started again later. `run` and `drain` call it."""
        if not self._is_started:
            self._is_started = True
            await self._adapters.start()

    async def run(self) -> None:
        """Send queued chunks until cancelled."""
        await self.start()
        await self.outbox.run(self.carriers())

    async def drain(self, *, only: str | None = None, budget_ms: int | None = None) -> Drained:
        """Send what is due now, with `only` only on that channel."""
        await self.start()
        await self.outbox.sweep()
        return await self.outbox.drain(self.carriers(only=only), budget_ms=budget_ms)

    def carriers(self, *, only: str | None = None) -> dict[Route, Carrier]:
        """Return the carriers, for an outbox that also serves other routes: pass them to its `run` and `drain`."""
        return {Route.CHANNEL: ChannelCarrier(self._host, watch=self._saw, only=only)}

    async def close(self) -> None:
        """Drain once more if `run` ran, then close adapters and file."""
        await self.outbox.close()
        await self._adapters.close()
        if self._telling is not None:
            await self._telling

    def health(self) -> list[ChannelHealth]:
        return [self._adapters.health(name) for name in self._adapters.names()]

    async def _enqueue(
        self, message: ChannelMessage, made: list[tuple[ChannelChunk, bytes]], group: GroupId
    ) -> Enqueued:
        to = Destination(Route.CHANNEL, lane_of(message.channel, message.chat))
        ids = tuple(chunk_id(group, one.index) for one, _ in made)
        items = [
            (Message(payload=sealed, message_id=message_id, ttl_s=message.ttl_s, priority=message.priority), to)
            for message_id, sealed in zip(ids, self._sealed(ids, made), strict=True)
        ]
        if self._after is not None:
            self._seen.update({each: (one, None) for each, (one, _) in zip(ids, made, strict=True)})
        try:
            await self.outbox.send_many(items)
        except DuplicateMessageId:  # the first delivery with this id may still be in flight
            raise
        except BaseException:
            for each in ids:
                self._seen.pop(each, None)
            raise
        return Enqueued(delivery_id=group, message_ids=ids)

    def _sealed(self, ids: Sequence[MessageId], made: Sequence[tuple[ChannelChunk, bytes]]) -> list[bytes]:
        """Seal the chunks, bound to their ids, so that two texts cannot be swapped on disk."""
        return [
            self._seal.seal(payload, nonce=self._entropy.draw(NONCE_BYTES), context=message_id)
            for message_id, (_, payload) in zip(ids, made, strict=True)
        ]

    def _saw(self, message_id: MessageId, seen: ChannelChunk, name: str | None) -> None:
        if self._after is not None:
            self._seen[message_id] = (seen, name)

    def _changed(self, change: OutboxEvent) -> None:
        state = _ENDS.get(change.notice)
        if state is None or change.message_id not in self._seen:
            return
        ended, name = self._seen.pop(change.message_id)
        self._ends.append(ChunkEnd(message_id=change.message_id, chunk=ended, state=state, code=change.code, name=name))
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        """Call the after hook for each ended chunk, in order. A failing hook does not stop the next calls."""
        while self._ends and self._after is not None:
            try:
                await self._after(self._ends.popleft())
            except Exception as problem:  # noqa: BLE001 - the chunk's end is on disk; a hook's failure must not stop the others
                loop = asyncio.get_running_loop()
                loop.call_exception_handler({"message": "the after hook of a channel failed", "exception": problem})


def prepare(
    message: ChannelMessage, platform: Platform, group: GroupId, too_many: int
) -> list[tuple[ChannelChunk, bytes]]:
    """Render, cut and encode a message. Return nothing for a text without visible characters.

    If a chunk with its plain text is larger than an entry may be, all are cut smaller. At most `too_many` are made: the
    outbox would refuse that many, and a line of one character each would make half a million.
    """
    rendered = render(message.markdown, platform)
    if rendered.is_empty:
        return []
    limit: int | None = RULES[platform].chunk_limit
    while limit is not None:
        try:
            return [
                (one, encode_chunk(one))
                for one in _planned(message, rendered, platform, group, limit=limit, at_most=too_many)
            ]
        except TooLarge:
            limit = smaller_limit(limit)
    raise RestanteError(
        "the message has a character with so much markup around it that no chunk can hold it",
        code=Code.MESSAGE_TOO_LARGE,
    )


def _planned(
    message: ChannelMessage, rendered: Rendered, platform: Platform, group: GroupId, *, limit: int, at_most: int
) -> list[ChannelChunk]:
    pieces = [RenderedChunk(one.text, one.plain) for one in chunk(rendered, limit=limit, at_most=at_most)]
    return plan(message, pieces, form=RULES[platform].format, group=group)
