"""The send receipt: what `send` returns for each destination (SPEC 3.7)."""

from dataclasses import dataclass
from typing import NamedTuple

from restante.model.ids import MessageId
from restante.model.states import DropReason


@dataclass(frozen=True, slots=True)
class Sent:
    """The destination accepted the message at once."""


@dataclass(frozen=True, slots=True)
class Queued:
    """The message is on disk and will be sent."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The message was not accepted, for this reason."""

    reason: DropReason


Outcome = Sent | Queued | Dropped


class Delivery(NamedTuple):
    """One destination of a send: the message id used there and the outcome."""

    destination: str
    message_id: MessageId
    outcome: Outcome


class SendReceipt(NamedTuple):
    """The outcome of a send per destination (SPEC 3.7)."""

    deliveries: tuple[Delivery, ...]

    @property
    def message_id(self) -> MessageId:
        """Return the message id at the first destination."""
        return self.deliveries[0].message_id

    @property
    def outcomes(self) -> tuple[tuple[str, Outcome], ...]:
        return tuple((delivery.destination, delivery.outcome) for delivery in self.deliveries)
