"""How much of a relay one connection and one source may use, and for how long a connection may be silent (SPEC 6.8).

Numbers and pure rules; no clock, no socket. The host closes or pauses the connections that exceed a limit.
"""

import math
from dataclasses import dataclass
from typing import Final

from restante.model.setting_ranges import check_ranges, ranged

MIB: Final = 1_048_576
HOUR_MS: Final = 3_600_000
MAX_UNCOMMITTED_PER_CONNECTION: Final = 4 * MIB
"""Bytes of one connection's puts that may wait for the disk: four full commit batches of 1 KiB messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayLimits:
    """The limits of relay connections. `heartbeat_interval_ms` is for the client's side."""

    put_rate_per_s: int = ranged(0, low=0, high=1_000_000, unit="puts/s", clause="6.8")
    max_connections: int = ranged(4_096, low=1, high=100_000, unit="connections", clause="6.8")
    max_subscriptions_per_mailbox: int = ranged(4, low=1, high=64, unit="connections", clause="6.8")
    handshake_timeout_ms: int = ranged(10_000, low=50, high=60_000, unit="ms", clause="6.8")
    idle_timeout_ms: int = ranged(75_000, low=50, high=HOUR_MS, unit="ms", clause="6.8")
    slow_reader_timeout_ms: int = ranged(30_000, low=50, high=HOUR_MS, unit="ms", clause="6.8")
    frame_timeout_ms: int = ranged(30_000, low=50, high=HOUR_MS, unit="ms", clause="6.8")
    heartbeat_interval_ms: int = ranged(25_000, low=20, high=HOUR_MS, unit="ms", clause="6.8")
    reap_interval_ms: int = ranged(HOUR_MS, low=1_000, high=24 * HOUR_MS, unit="ms", clause="6.1")
    max_send_buffer_bytes: int = ranged(MIB, low=65_536, high=64 * MIB, unit="bytes", clause="6.8")
    max_uncommitted_bytes: int = ranged(64 * MIB, low=MIB, high=4_096 * MIB, unit="bytes", clause="6.8")
    max_partial_bytes: int = ranged(64 * MIB, low=MIB, high=4_096 * MIB, unit="bytes", clause="6.8")

    def __post_init__(self) -> None:
        check_ranges(self, "relay")


def may_connect(limits: RelayLimits, *, taken: int, of_source: int) -> bool:
    """Return whether one more connection is accepted from a source that holds `of_source` of the `taken` ones.

    A source has no limit of its own until half of the connections are taken; then it may hold a quarter.
    """
    if taken >= limits.max_connections:
        return False
    return 2 * taken < limits.max_connections or 4 * of_source < limits.max_connections


def may_read(limits: RelayLimits, *, of_connection: int, of_source: int, total: int, sources: int) -> bool:
    """Return whether a connection may be read from, by the bytes of puts that wait for the disk.

    Once half of the node's limit is used, each of the `sources` with such puts has an equal share of the other half.
    So a greedy source stops its own connections only, and the total stays near the limit.
    """
    if of_connection > MAX_UNCOMMITTED_PER_CONNECTION:
        return False
    half = limits.max_uncommitted_bytes // 2
    return total <= half or of_source <= half // max(1, sources)


class PutMeter:
    """A token bucket: `rate` tokens a second, at most one second's worth. The time is an argument, in seconds."""

    __slots__ = ("_at_s", "_rate", "_tokens")

    def __init__(self, *, rate_per_s: int, now_s: float) -> None:
        self._rate = rate_per_s
        self._tokens = float(rate_per_s)
        self._at_s = now_s

    def take(self, count: int, now_s: float) -> int:
        """Use up to `count` tokens and return how many there were."""
        if now_s != self._at_s:
            self._tokens = min(self._tokens + (now_s - self._at_s) * self._rate, self._rate)
            self._at_s = now_s
        taken = min(count, int(self._tokens))
        self._tokens -= taken
        return taken

    def wait_ms(self) -> int:
        """Return how long it takes until there is a token."""
        return max(1, math.ceil((1.0 - self._tokens) / self._rate * 1_000))
