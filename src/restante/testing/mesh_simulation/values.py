"""What a simulation is told, and what it found."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

Handle = Callable[[], Any]
"""What a node does for a request, and what it answers."""
Answered = Callable[[Any], None]
Failed = Callable[..., None]
"""Called without arguments, or by circuits with `was_asked=False` if they failed before the node heard of it."""

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000
START_MS: Final = 500_000 * HOUR_MS
"""When a simulation begins: the start of an hour."""


class Lie(StrEnum):
    """How a dishonest node behaves."""

    DROPS = "drops"
    """Signs storage receipts and stores nothing."""
    HIDES = "hides"
    """Stores, and lists nothing as complete."""
    ALTERS = "alters"
    """Lists what it holds and sends other bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """For this time the mesh falls into two halves that can't reach each other."""

    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSettings:
    """A world. Times count from the start of the simulation."""

    nodes: int = 60
    families: int | None = None
    """How many operators share the nodes; None: each node is its own family."""
    recipients: int = 20
    messages: int = 200
    sending_ms: int = 4 * HOUR_MS
    """Messages are sent at random moments of this time."""
    total_ms: int = 40 * HOUR_MS
    churn_per_hour: float = 0.0
    """The share of nodes that crash for good in an hour; each is replaced by a new node."""
    churn_ms: int | None = None
    """How long nodes are replaced; None: until the end."""
    restarts_per_hour: float = 0.0
    """The share of nodes that crash and come back with their disk ten minutes later."""
    liars: float = 0.0
    partition: Partition | None = None
    clock_skew_ms: int = 5 * MINUTE_MS
    """Clocks are off by up to this; one in twenty is off by two hours. Network time corrects both."""
    loss: float = 0.02
    """How often a packet is sent again. Connections are TCP, so a loss is a delay."""
    delay_ms: float = 40.0
    directory_lag_ms: int = 10 * MINUTE_MS
    """Descriptors reach a node or client after at most this time."""
    directory_gap: float = 0.0
    """The share of the directory that each sender and recipient lacks, each another one. For small worlds: every client
    has an index of its own."""
    poll_interval_ms: int = 30 * MINUTE_MS
    online_share: float = 0.3
    """How much of the time a recipient is online."""
    stores_again: bool = True
    """A sender stores a message without receipt once more after 24 h (SPEC 3.14)."""


@dataclass(slots=True, kw_only=True)
class SimulationResult:
    """What became of the messages. Every accepted one is in exactly one of read, lost, unread and unsent."""

    seed: int
    messages: int = 0
    read: int = 0
    unsent: int = 0
    """No attempt reached the write quorum."""
    lost: int = 0
    """The quorum was reached, and no living node holds the message any more."""
    unread: int = 0
    """A living node holds the message, and its bucket is still open at the end."""
    wrongly_finalized: int = 0
    """A living node holds the message, and the recipient will not look there again."""
    fetched_twice: int = 0
    """The body came again from another bucket. Deduplication shows it once (SPEC 9.1)."""
    attempts: int = 0
    store_ms: list[int] = field(default_factory=list)
    """How long each quorum took."""
    repairs: int = 0
    """How often a node missed a neighbour twice or saw it leave the directory."""
    rounds: int = 0
    """How often a node compared what it holds with its neighbours."""
    copied: int = 0
    requests: int = 0
    crashes: int = 0
    events: int = 0
    accused: set[int] = field(default_factory=set)
    """Nodes that claimed to be complete without a blob that another one sent."""
    liars: set[int] = field(default_factory=set)
    trace: str = ""
    """A hash over everything that happened."""

    @property
    def is_balanced(self) -> bool:
        return self.messages == self.read + self.unsent + self.lost + self.unread + self.wrongly_finalized
