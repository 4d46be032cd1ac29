"""Limits of a relay connection: how much it may send and how long it may be idle (SPEC 6.8).

Settings and one token bucket, without clock or socket. The host decides what happens to a connection beyond a limit.
"""

import math
from dataclasses import dataclass
from typing import Final

from restante.model.setting_ranges import check_ranges, ranged

MIB: Final = 1_048_576
HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayLimits:
    """The limits of relay connections. The last four are for the client's side and for what waits in memory."""

    put_rate_per_s: int = ranged(20, low=1, high=1_000_000, unit="puts/s", clause="6.8")
    put_burst: int = ranged(500, low=1, high=10_000_000, unit="puts", clause="6.8")
    max_connections: int = ranged(1_000, low=1, high=100_000, unit="links", clause="6.8")
    max_subscriptions_per_mailbox: int = ranged(4, low=1, high=64, unit="sessions", clause="6.8")
    handshake_timeout_ms: int = ranged(10_000, low=50, high=60_000, unit="ms", clause="6.8")
    idle_timeout_ms: int = ranged(75_000, low=50, high=HOUR_MS, unit="ms", clause="6.8")
    slow_reader_timeout_ms: int = ranged(30_000, low=50, high=HOUR_MS, unit="ms", clause="6.8")
    frame_timeout_ms: int = ranged(30_000, low=50, high=HOUR_MS, unit="ms", clause="6.8")
    heartbeat_interval_ms: int = ranged(25_000, low=20, high=HOUR_MS, unit="ms", clause="6.8")
    reap_interval_ms: int = ranged(HOUR_MS, low=1_000, high=24 * HOUR_MS, unit="ms", clause="6.1")
    max_send_buffer_bytes: int = ranged(MIB, low=65_536, high=64 * MIB, unit="bytes", clause="6.8")
    max_uncommitted_bytes: int = ranged(64 * MIB, low=MIB, high=4_096 * MIB, unit="bytes", clause="6.8")

    def __post_init__(self) -> None:
        check_ranges(self, "relay")


class PushMeter:
    """A token bucket: `rate` tokens a second, at most `burst`. The time is an argument, in seconds."""

    __slots__ = ("_at_s", "_burst", "_rate", "_tokens")

    def __init__(self, *, rate_per_s: int, burst: int, now_s: float) -> None:
        self._rate = rate_per_s
        self._burst = burst
        self._tokens = float(burst)
        self._at_s = now_s

    def take(self, count: int, now_s: float) -> int:
        """Take up to `count` tokens; return how many there were."""
        if now_s != self._at_s:
            self._tokens = min(self._tokens + (now_s - self._at_s) * self._rate, self._burst)
            self._at_s = now_s
        taken = min(count, int(self._tokens))
        self._tokens -= taken
        return taken

    def wait_ms(self, now_s: float) -> int:
        """Take one token and return 0. If there is none, return the time until the next one."""
        return 0 if self.take(1, now_s) else max(1, math.ceil((1.0 - self._tokens) / self._rate * 1_000))
