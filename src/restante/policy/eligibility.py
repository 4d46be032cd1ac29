"""Decide whether a message may be queued, for every route (SPEC 2.4).

The rule depends on the kind and on whether a live path exists, not on lanes, capacity or time.
"""

from dataclasses import dataclass
from typing import Final

from restante.model.kinds import KIND_RULES, DeliveryClass, parse_kind
from restante.model.send_receipt import Dropped
from restante.model.states import DropReason


@dataclass(frozen=True, slots=True)
class Queue:
    """Write the message to the outbox first, whether connected or not (SPEC 3.2)."""


@dataclass(frozen=True, slots=True)
class SendLive:
    """Send the message at once on the live path and store nothing."""


_QUEUE: Final = Queue()


def classify(kind: str | None, *, connected: bool) -> Queue | SendLive | Dropped:
    """Classify a message by its kind: a `Kind`, a name from outside, or None for no name."""
    known = None if kind is None else parse_kind(kind)
    if known is None:
        return Dropped(DropReason.NOT_QUEUE_ELIGIBLE)
    if KIND_RULES[known].delivery is DeliveryClass.DURABLE:
        return _QUEUE
    # A position or a heartbeat that waited in a queue is wrong when it arrives.
    return SendLive() if connected else Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)
