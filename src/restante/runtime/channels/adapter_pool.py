"""The adapters of one process: which exist, which have started, when each may send (SPEC 12.7).

An absent channel fails its queued entries. One that failed to start keeps them waiting and is started again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.policy.channel_platforms import Platform
from restante.policy.channel_rate_limit import ChannelLimits, Pace, free_at_ms, record_retry_after, record_send
from restante.ports.channel_adapter import ChannelAdapter
from restante.ports.clock import Clock
from restante.runtime.channels.channel_config import Registered

WAKE_MARGIN_MS: Final = 5
"""The wall clock may be slightly behind the loop's clock. A wake-up that is too early would not be repeated."""


class Condition(StrEnum):
    """The condition of a channel."""

    READY = "ready"
    DOWN = "down"
    """Its start failed; queued entries wait."""
    SILENT = "silent"
    """The platform sent a Retry-After that is not over."""
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelHealth:
    channel: str
    condition: Condition
    code: Code | None = None
    paused_until_ms: int | None = None


class _Slot:
    def __init__(self, registered: Registered) -> None:
        self.registered = registered
        self.adapter: ChannelAdapter | None = None
        self.pace = Pace()
        self.problem: Code | None = Code.CHANNEL_UNAVAILABLE


class AdapterPool:
    """All adapters. `when_ready` is called whenever a channel can be used again."""

    def __init__(
        self, channels: Mapping[str, Registered], *, clock: Clock, when_ready: Callable[[], None] = lambda: None
    ) -> None:
        self._slots = {name: _Slot(registered) for name, registered in channels.items()}
        self._clock = clock
        self._when_ready = when_ready
        self._tasks: set[asyncio.Task[None]] = set()

    def names(self) -> list[str]:
        return list(self._slots)

    def platform(self, channel: str) -> Platform | None:
        """Return the platform of a channel, or None if the channel is not in the configuration."""
        slot = self._slots.get(channel)
        return None if slot is None else slot.registered.platform

    def limits(self, channel: str) -> ChannelLimits:
        return self._slots[channel].registered.limits

    def adapter(self, channel: str) -> ChannelAdapter | None:
        """Return the adapter if it has started, else None."""
        slot = self._slots.get(channel)
        return None if slot is None else slot.adapter

    def health(self, channel: str) -> ChannelHealth:
        slot = self._slots.get(channel)
        if slot is None:
            return ChannelHealth(channel=channel, condition=Condition.ABSENT, code=Code.CHANNEL_ABSENT)
        if slot.adapter is None:
            return ChannelHealth(channel=channel, condition=Condition.DOWN, code=slot.problem)
        if slot.pace.paused_until_ms > self._clock.now_ms():
            return ChannelHealth(
                channel=channel,
                condition=Condition.SILENT,
                code=Code.RATE_LIMITED,
                paused_until_ms=slot.pace.paused_until_ms,
            )
        return ChannelHealth(channel=channel, condition=Condition.READY)

    async def start(self) -> None:
        """Start all channels concurrently. Those that fail are started again in the background."""
        await asyncio.gather(*(self._start(slot) for slot in self._slots.values()))
        for slot in self._slots.values():
            if slot.adapter is None:
                self._in_background(self._start_again(slot))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for slot in self._slots.values():
            if slot.adapter is not None:
                with contextlib.suppress(Exception):  # a failure to close loses nothing
                    await slot.adapter.close()
                slot.adapter = None

    def free_at_ms(self, channel: str, chat: str) -> int:
        return free_at_ms(self._slots[channel].pace, chat)

    def consume_slot(self, channel: str, chat: str) -> None:
        slot = self._slots[channel]
        slot.pace = record_send(slot.pace, slot.registered.limits, chat, at_ms=self._clock.now_ms())

    def pause_channel(self, channel: str, *, until_ms: int) -> None:
        """Record a Retry-After: nothing is sent to any chat of the channel before then."""
        slot = self._slots[channel]
        slot.pace = record_retry_after(slot.pace, until_ms=until_ms)
        self._in_background(self._wake_at(until_ms))

    async def _start(self, slot: _Slot) -> None:
        try:
            adapter = slot.registered.make()
            async with asyncio.timeout(slot.registered.limits.timeout_ms / 1_000):
                await adapter.start()
        except RestanteError as problem:
            slot.problem = problem.code
        except Exception:  # noqa: BLE001 - a user's adapter may raise anything; the others must go on
            slot.problem = Code.CHANNEL_UNAVAILABLE
        else:
            slot.adapter = adapter
            slot.problem = None

    async def _start_again(self, slot: _Slot) -> None:
        while slot.adapter is None:
            await asyncio.sleep(slot.registered.limits.restart_delay_ms / 1_000)
            await self._start(slot)
        self._when_ready()

    async def _wake_at(self, at_ms: int) -> None:
        await asyncio.sleep((max(0, at_ms - self._clock.now_ms()) + WAKE_MARGIN_MS) / 1_000)
        self._when_ready()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
