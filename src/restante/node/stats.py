"""What a relay counts about itself: numbers and codes, never addresses or ids (docs/safe-logging.md)."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from restante.model.error_codes import Code


class RelayEvent(StrEnum):
    """What a relay reports to its host. Safe to log as it is, with its code."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    REJECTED = "rejected"
    HANDSHAKE_FAILED = "handshake_failed"
    SUBSCRIBED = "subscribed"
    REFUSED = "refused"
    PROTOCOL_ERROR = "protocol_error"
    IDLE_TIMEOUT = "idle_timeout"
    SLOW_READER = "slow_reader"
    FRAME_TIMEOUT = "frame_timeout"
    PARTIAL_FRAMES_FULL = "partial_frames_full"
    BLOB_DAMAGED = "blob_damaged"
    STORE_FAILED = "store_failed"
    STORE_RECOVERED = "store_recovered"
    REAPED = "reaped"
    STOPPING = "stopping"


CLOSED_BY_RELAY = (
    RelayEvent.IDLE_TIMEOUT,
    RelayEvent.SLOW_READER,
    RelayEvent.FRAME_TIMEOUT,
    RelayEvent.PARTIAL_FRAMES_FULL,
)
"""The reasons in `connections_closed_total`."""

EventHook = Callable[[RelayEvent, Code | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayStats:
    """Gauges first, then counters that only grow while the process runs."""

    connections: int
    subscriptions: int
    pending_puts: int
    pending_put_bytes: int
    partial_frame_bytes: int
    store_usable: bool

    connections_total: int
    connections_rejected_total: int
    handshake_failures_total: int
    connections_closed_total: Mapping[RelayEvent, int]
    protocol_errors_total: int
    puts_stored_total: int
    bytes_stored_total: int
    refusals_total: Mapping[Code, int]
    blobs_served_total: int
    bytes_served_total: int
    blobs_deleted_total: int
    blobs_reaped_total: int
    blobs_damaged_total: int
    commits_total: int
    commit_seconds_total: float


@dataclass(slots=True, kw_only=True)
class RelayCounters:
    """The counters behind `RelayStats`, and the hook that hears of each event."""

    on_event: EventHook = lambda _event, _code: None
    connections: int = 0
    events: Counter[RelayEvent] = field(default_factory=Counter)
    refusals: Counter[Code] = field(default_factory=Counter)
    puts_stored: int = 0
    bytes_stored: int = 0
    blobs_served: int = 0
    bytes_served: int = 0
    blobs_deleted: int = 0
    blobs_reaped: int = 0
    blobs_damaged: int = 0
    commits: int = 0
    commit_seconds: float = 0.0
    store_usable: bool = True

    def report(self, event: RelayEvent, code: Code | None = None) -> None:
        """Count the event and pass it to the host."""
        self.events[event] += 1
        if event is RelayEvent.REFUSED and code is not None:
            self.refusals[code] += 1
        self.on_event(event, code)
