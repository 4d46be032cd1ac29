"""What a relay counts about itself: numbers and codes, never who (docs/safe-logging.md). Others show it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from restante.model.error_codes import Code


class RelayEvent(StrEnum):
    """What a relay tells its host as it happens; safe to log as it is, with its code."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    TURNED_AWAY = "turned_away"
    HANDSHAKE_FAILED = "handshake_failed"
    OPENED = "opened"
    REFUSED = "refused"
    BROKE_FORMAT = "broke_format"
    IDLE = "idle"
    SLOW = "slow"
    STORE_FAILED = "store_failed"
    STORE_RECOVERED = "store_recovered"
    REAPED = "reaped"
    STOPPING = "stopping"


EventHook = Callable[[RelayEvent, Code | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayStats:
    """Gauges first, then counters that only grow while the process lives."""

    connections: int
    receive_sessions: int
    waiting_puts: int
    waiting_bytes: int
    store_usable: bool

    connections_total: int
    turned_away_total: int
    handshakes_failed_total: int
    closed_idle_total: int
    closed_slow_total: int
    broke_format_total: int
    puts_stored_total: int
    bytes_stored_total: int
    refusals_total: Mapping[Code, int]
    blobs_served_total: int
    bytes_served_total: int
    blobs_deleted_total: int
    blobs_reaped_total: int
    commits_total: int
    commit_seconds_total: float


@dataclass(slots=True, kw_only=True)
class RelayCounters:
    """The counters behind `RelayStats`, as the relay moves them."""

    connections: int = 0
    turned_away: int = 0
    handshakes_failed: int = 0
    closed_idle: int = 0
    closed_slow: int = 0
    broke_format: int = 0
    puts_stored: int = 0
    bytes_stored: int = 0
    refusals: Counter[Code] = field(default_factory=Counter)
    blobs_served: int = 0
    bytes_served: int = 0
    blobs_deleted: int = 0
    blobs_reaped: int = 0
    commits: int = 0
    commit_seconds: float = 0.0
    store_usable: bool = True
