"""Run core/channel_delivery for one lease on one chunk: wait, store the state, call the platform (SPEC 12.4, 12.6).

The machine decides. This host stores each state before and after the call and reports how the call ended.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from restante.client.outbox import Outbox
from restante.core.channel_chunks import chunk_id, idempotency_key
from restante.core.channel_delivery import (
    Accepted,
    AnswerLost,
    ChunkState,
    Circumstances,
    Effect,
    Event,
    GiveBack,
    Leased,
    NotReached,
    Refused,
    Send,
    Step,
    step,
)
from restante.core.outbox_events import AppendJournalEvent, EmitEvent, OutboxEventType
from restante.crypto.storage_seal import StorageSeal
from restante.model.journal import JournalKind
from restante.model.outbox_entry import Lease, OutboxEntry
from restante.policy.channel_errors import ChannelError, classify_channel_error
from restante.policy.channel_platforms import RULES, Format, measure
from restante.policy.failures import Failure
from restante.policy.ttl import is_expired
from restante.ports.channel_adapter import ChannelAdapter, NotSent, Outgoing, SendRefused
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.channels.adapter_pool import AdapterPool
from restante.runtime.channels.plain_text_parts import Part, next_part
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.wire.channel_chunk import ChannelChunk

MAY_REPEAT: Final = "may_repeat"
RECOGNISED: Final = "recognised"
"""The code of a repeated send that the platform recognises by its key (SPEC 12.6). Otherwise the chat may show it
twice."""

MAX_PLATFORM_ID_CHARS: Final = 256  # longer than any platform's; an adapter may return anything
_SLACK: Final = 10  # a send ends before the last tenth of its lease, so that no other process has begun


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSenderContext:
    """What all sends share."""

    outbox: Outbox
    seal: StorageSeal
    adapters: AdapterPool
    clock: Clock
    entropy: Entropy


class ChunkSender:
    """Sends one chunk while `lease` is held."""

    def __init__(
        self, host: ChunkSenderContext, entry: OutboxEntry, lease: Lease, chunk: ChannelChunk, adapter: ChannelAdapter
    ) -> None:
        self._host = host
        self._entry = entry
        self._lease = lease
        self._chunk = chunk
        self._adapter = adapter
        self._rules = RULES[adapter.platform]
        now_ms = host.clock.now_ms()
        until_ms = lease.until_ms
        self._ends_at_ms = until_ms - (until_ms - now_ms) // _SLACK
        self._patience_until_ms = now_ms + (until_ms - now_ms) // 2
        self._attempts = 0
        self._name: str | None = None

    async def run(self) -> str | None:
        """Return the platform's message id once the whole chunk has arrived. Raise `AttemptFailed` otherwise."""
        progress = await self._host.outbox.within(lambda store: store.progress.load(self._entry.message_id))
        effect: Effect
        progress, effect = self._step(progress, Leased())
        while isinstance(effect, Send):
            progress, effect = await self._wait(progress, effect) or await self._send(progress)
        if self._name is not None:
            await self._host.outbox.within(self._keep_name)
        if isinstance(effect, GiveBack):
            await self._store(progress)
            raise AttemptFailed(
                "the platform did not accept the message", failure=effect.failure, retry_after_ms=effect.retry_after_ms
            )
        return self._name

    def _step(self, progress: ChunkState, event: Event) -> Step:
        return step(
            progress,
            event,
            Circumstances(
                now_ms=self._host.clock.now_ms(),
                expires_at_ms=self._entry.expires_at_ms,
                no_attempt_after_ms=self._patience_until_ms,
                attempts=max(self._attempts, 1),
                recognises_repeats=self._adapter.recognises_repeats,
                dice=abs(self._host.entropy.dice()),
            ),
        )

    async def _wait(self, progress: ChunkState, send: Send) -> Step | None:
        """Wait until this chunk may be sent. Return a step instead if that takes too long or the chunk expires
        first."""
        channel, chat = self._chunk.channel, self._chunk.chat
        while True:
            now_ms = self._host.clock.now_ms()
            if is_expired(self._entry.expires_at_ms, now_ms):
                return progress, GiveBack(failure=Failure.TTL_EXPIRED)
            at_ms = max(send.at_ms, self._host.adapters.free_at_ms(channel, chat))
            if at_ms <= now_ms:
                self._host.adapters.consume_slot(channel, chat)
                return None
            if at_ms > self._patience_until_ms:
                return progress, GiveBack(failure=Failure.RATE_LIMITED, retry_after_ms=at_ms - now_ms)
            await asyncio.sleep((at_ms - now_ms) / 1_000)

    async def _send(self, progress: ChunkState) -> Step:
        """Call the platform once, with the send-started mark of SPEC 12.6 on disk before."""
        part = self._part(progress)
        await self._host.outbox.within(lambda store: self._begin(store, progress))
        self._attempts += 1
        after, effect = self._step(replace(progress, is_open=True), await self._call(progress, part))
        if (after.part_limit, after.offset) != (progress.part_limit, progress.offset):
            self._attempts = 0  # another text starts counting again
        if isinstance(effect, Send):
            # A complete chunk stays open: its end and the entry's are one transaction.
            await self._store(after)
        return after, effect

    async def _store(self, progress: ChunkState) -> None:
        def store_if_held(store: SqliteOutbox) -> None:
            if self._is_held(store):
                store.progress.store(self._entry.message_id, progress)
            self._keep_name(store)

        await self._host.outbox.within(store_if_held)

    def _keep_name(self, store: SqliteOutbox) -> None:
        """Keep the platform's id. It is true even if the lease was lost, because the platform has the message."""
        if self._name is not None:
            name = self._name[:MAX_PLATFORM_ID_CHARS]
            store.ended.add_platform_id(self._entry.message_id, name, now_ms=self._host.clock.now_ms())

    def _is_held(self, store: SqliteOutbox) -> bool:
        """Return whether the lease is still ours. The machine may have slept for longer than the lease."""
        entry = store.load(self._entry.message_id)
        return entry is not None and entry.lease == self._lease

    def _begin(self, store: SqliteOutbox, progress: ChunkState) -> None:
        if not self._is_held(store):
            raise AttemptFailed(
                "the lease on the entry expired and another process took it", failure=Failure.CHANNEL_UNAVAILABLE
            )
        store.progress.store(self._entry.message_id, replace(progress, is_open=True))
        if progress.may_have_arrived:
            code = RECOGNISED if self._adapter.recognises_repeats else MAY_REPEAT
            store.append_journal_events(
                self._entry.message_id,
                AppendJournalEvent(kind=JournalKind.RESENT, code=code),
                EmitEvent(notice=OutboxEventType.RETRIED, code=code),
                now_ms=self._host.clock.now_ms(),
            )

    async def _call(self, progress: ChunkState, part: Part) -> Event:
        message = self._outgoing(progress, part)
        left_ms = self._ends_at_ms - self._host.clock.now_ms()
        timeout_ms = min(self._host.adapters.limits(self._chunk.channel).timeout_ms, max(left_ms, 1))
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                taken = await self._adapter.send(message)
        except NotSent:
            return NotReached()
        except SendRefused as refused:
            return self._refused(refused, message)
        except Exception:  # noqa: BLE001 - an adapter may raise anything; whether the text arrived is then unknown
            return AnswerLost()
        self._name = self._name or taken.platform_message_id
        return Accepted(next_offset=part.next_offset)

    def _refused(self, refused: SendRefused, message: Outgoing) -> Refused:
        error = classify_channel_error(refused.said, refused.status)
        retry_after_ms = refused.retry_after_ms
        if error is ChannelError.RATE_LIMITED and retry_after_ms:
            self._host.adapters.pause_channel(self._chunk.channel, until_ms=self._host.clock.now_ms() + retry_after_ms)
        return Refused(error=error, size=measure(message.text, self._rules.counting), retry_after_ms=retry_after_ms)

    def _part(self, progress: ChunkState) -> Part:
        """Return what is sent next: the chunk or, after it was found too long, a part of its plain text."""
        if progress.part_limit is not None:
            counting = self._rules.counting
            return next_part(self._chunk.plain, offset=progress.offset, limit=progress.part_limit, counting=counting)
        return Part(text=self._chunk.plain if self._is_plain(progress) else self._chunk.text, next_offset=None)

    def _is_plain(self, progress: ChunkState) -> bool:
        """Return whether plain text is sent: the platform refused the format, or the channel's platform has changed."""
        return progress.as_plain or self._chunk.format != self._rules.format

    def _outgoing(self, progress: ChunkState, part: Part) -> Outgoing:
        chunk = self._chunk
        is_plain = self._is_plain(progress)
        return Outgoing(
            chat=chunk.chat,
            text=part.text,
            plain=part.text if is_plain else chunk.plain,
            format=Format.PLAIN if is_plain else self._rules.format,
            key=idempotency_key(self._entry.message_id, offset=progress.offset, limit=progress.part_limit),
            thread_key=chunk_id(chunk.group, 0).hex(),
            index=chunk.index,
            count=chunk.count,
            title=chunk.title,
            reply_to=chunk.reply_to,
            thread=chunk.thread,
        )
