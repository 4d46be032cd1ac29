"""Where a message can be, and how far its delivery has been confirmed (SPEC 1.4, 3.13)."""

from enum import IntEnum, StrEnum
from typing import Final


class Route(StrEnum):
    """How an outbox entry leaves."""

    MESH = "mesh"
    RELAY = "relay"
    CHANNEL = "channel"


class State(StrEnum):
    """An accepted message is in exactly one of these at every moment (SPEC 1.4)."""

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
    """What the sender has been told; it only ever grows (SPEC 3.13)."""

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
    """How long a dead letter is kept and what may happen to it (SPEC 5.3)."""

    RETRIABLE = "retriable"
    PERMANENT = "permanent"
    EXPIRED = "expired"


class Verdict(StrEnum):
    """What an arrival turned out to be (SPEC 9.1)."""

    NEW = "new"
    DUPLICATE = "duplicate"
    COLLISION = "collision"
    REPLAY = "replay"
