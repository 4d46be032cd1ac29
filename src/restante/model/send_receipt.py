"""What `send` returns for each destination (SPEC 3.7)."""

from dataclasses import dataclass
from typing import NamedTuple

from restante.model.ids import MessageId
from restante.model.states import DropReason


@dataclass(frozen=True, slots=True)
class Sent:
    """The destination took it at once."""


@dataclass(frozen=True, slots=True)
class Queued:
    """It is on disk and will be sent."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """It was not taken, for this reason."""

    reason: DropReason


Outcome = Sent | Queued | Dropped


class Delivery(NamedTuple):
    """One destination of a send: the id its message got there, and what became of it."""

    destination: str
    message_id: MessageId
    outcome: Outcome


class SendReceipt(NamedTuple):
    """What became of a send, destination by destination (SPEC 3.7)."""

    deliveries: tuple[Delivery, ...]

    @property
    def message_id(self) -> MessageId:
        """The id at the first destination: all there is to know of a send to one."""
        return self.deliveries[0].message_id

    @property
    def outcomes(self) -> tuple[tuple[str, Outcome], ...]:
        return tuple((delivery.destination, delivery.outcome) for delivery in self.deliveries)
