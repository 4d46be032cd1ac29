"""The one place that says whether a message may be queued, on every route (SPEC 2.4).

Knows the kind and whether a live path exists; nothing of lanes, capacity or time.
"""

from dataclasses import dataclass
from typing import Final

from restante.model.kinds import KIND_RULES, DeliveryClass, parse_kind
from restante.model.send_receipt import Dropped
from restante.model.states import DropReason


@dataclass(frozen=True, slots=True)
class Queue:
    """Write it to the outbox first, connected or not (SPEC 3.2)."""


@dataclass(frozen=True, slots=True)
class SendLive:
    """Send it at once on the live path and keep nothing."""


_QUEUE: Final = Queue()


def classify(kind: str | None, *, connected: bool) -> Queue | SendLive | Dropped:
    """What may be done with a message of `kind`: a `Kind`, a name that came from outside, or None for no name."""
    known = None if kind is None else parse_kind(kind)
    if known is None:
        return Dropped(DropReason.NOT_QUEUE_ELIGIBLE)
    if KIND_RULES[known].delivery is DeliveryClass.DURABLE:
        return _QUEUE
    # A position or a heartbeat that waited in a queue would tell a lie when it arrived.
    return SendLive() if connected else Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)
