"""The states of a message and the levels of its acknowledgement (SPEC 1.4, 3.13)."""

from enum import IntEnum, StrEnum
from typing import Final


class Route(StrEnum):
    """How an outbox entry leaves."""

    MESH = "mesh"
    RELAY = "relay"
    UPSTREAM = "upstream"
    CHANNEL = "channel"


class State(StrEnum):
    """The state of an accepted message. It has exactly one at every moment (SPEC 1.4)."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    DELIVERED = "delivered"
    EXPIRED = "expired"
    EVICTED = "evicted"
    DEAD = "dead"


IN_FLIGHT: Final = frozenset({State.PENDING, State.SENDING, State.SENT})
ENDED: Final = frozenset(State) - IN_FLIGHT


class Confirmation(IntEnum):
    """The ack level: how far a message was acknowledged to its sender. It never decreases (SPEC 3.13)."""

    NONE = 0
    STORED = 1
    RECEIVED = 2
    READ = 3


class DropReason(StrEnum):
    """Why a destination of a send got nothing (SPEC 2.4, 3.6)."""

    REAL_TIME_DURING_DISCONNECT = "RealTimeDuringDisconnect"
    EVICTED_FOR_CAPACITY = "EvictedForCapacity"
    NOT_QUEUE_ELIGIBLE = "NotQueueEligible"


class DeadReason(StrEnum):
    """Why an entry became a dead letter (SPEC 5.2)."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    PERMANENT_FAILURE = "permanent_failure"
    QUEUE_TIME_EXCEEDED = "queue_time_exceeded"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class DeadCategory(StrEnum):
    """How long a dead letter is retained and what may be done with it (SPEC 5.3)."""

    RETRIABLE = "retriable"
    PERMANENT = "permanent"
    EXPIRED = "expired"


class Verdict(StrEnum):
    """The classification of an arrival (SPEC 9.1)."""

    NEW = "new"
    DUPLICATE = "duplicate"
    COLLISION = "collision"
    REPLAY = "replay"
