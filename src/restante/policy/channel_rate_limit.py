"""Compute when a channel may next be used, from its intervals and the platform's Retry-After (SPEC 4.3, 12.4).

The host waits. The state is in memory only: after a restart the platform sends Retry-After again.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from restante.model.setting_ranges import check_ranges, ranged

MOST_CHATS: Final = 10_000
"""The largest number of chats whose last send is recorded. Beyond it, records that are over are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLimits:
    """The settings that every channel has, whatever its adapter."""

    chat_interval_ms: int = ranged(0, low=0, high=60_000, unit="ms", clause="12.1")
    channel_interval_ms: int = ranged(0, low=0, high=60_000, unit="ms", clause="12.1")
    timeout_ms: int = ranged(15_000, low=100, high=120_000, unit="ms", clause="12.4")
    restart_delay_ms: int = ranged(30_000, low=100, high=3_600_000, unit="ms", clause="12.7")

    def check(self, channel: str) -> None:
        check_ranges(self, f"channels.{channel}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When one channel, and each of its chats, may next be sent to."""

    paused_until_ms: int = 0
    """The end of the platform's Retry-After. It holds for all chats."""
    channel_free_at_ms: int = 0
    chat_free_at_ms: dict[str, int] = field(default_factory=dict)


def free_at_ms(pace: Pace, chat: str) -> int:
    """Return when the next message to this chat may be sent."""
    return max(pace.paused_until_ms, pace.channel_free_at_ms, pace.chat_free_at_ms.get(chat, 0))


def record_send(pace: Pace, limits: ChannelLimits, chat: str, *, at_ms: int) -> Pace:
    """Record a send at `at_ms`; the next one must keep the configured interval."""
    chats = pace.chat_free_at_ms
    if limits.chat_interval_ms:
        known = {name: free for name, free in chats.items() if free > at_ms} if len(chats) >= MOST_CHATS else chats
        chats = {**known, chat: at_ms + limits.chat_interval_ms}
    return replace(pace, channel_free_at_ms=at_ms + limits.channel_interval_ms, chat_free_at_ms=chats)


def record_retry_after(pace: Pace, *, until_ms: int) -> Pace:
    """Record a Retry-After. The longest one counts."""
    return replace(pace, paused_until_ms=max(pace.paused_until_ms, until_ms))
