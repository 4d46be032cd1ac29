"""What the ends of a circuit ask their host to do, and what they report."""

from typing import NamedTuple

from restante.model.ids import NodeId
from restante.wire.circuit.cells import CellClass, CellContent


class SendForward(NamedTuple):
    """Send a cell body towards the exit: the client to its guard, a hop to the next one."""

    body: bytes


class SendBackward(NamedTuple):
    """Send a cell body towards the client."""

    body: bytes


class CreateNext(NamedTuple):
    """Send this circuit request as hop number `hop` to the node, over a connection between nodes."""

    node_id: NodeId
    request: bytes
    hop: int


class DestroyForward(NamedTuple):
    """Send DESTROY towards the exit. It has no reason, so that nothing can be read from it."""


class DestroyBackward(NamedTuple):
    """Send DESTROY towards the client."""


class Deliver(NamedTuple):
    """Hand a command to the streams of this end. `cell_class` is what it takes of the windows."""

    content: CellContent
    cell_class: CellClass


class Built(NamedTuple):
    """The client's circuit has all its hops."""


class Ended(NamedTuple):
    """The circuit is gone. `failed_hop` is the hop that did not answer or broke the protocol, None after a close."""

    failed_hop: int | None = None


Effect = SendForward | SendBackward | CreateNext | DestroyForward | DestroyBackward | Deliver | Built | Ended
