"""The client's end of a circuit: built hop by hop, then a channel to the exit that no hop between can read or alter.

The client speaks only to the last hop: while it builds, to the one that is to extend the circuit. Cells are always
full. The machine draws no randomness: handshake entropy is an argument.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from restante.core.circuit.effects import Built, Deliver, DestroyForward, Effect, Ended, SendForward
from restante.core.circuit.table import CLIENT_TABLE, Input, Phase
from restante.crypto.onion import CLIENT_ENTROPY_BYTES, ClientHandshake, Layer, finish_handshake, start_handshake
from restante.model.errors import LocalProtocolError, RestanteError
from restante.model.ids import NodeId
from restante.wire.circuit.cells import (
    MAX_HOPS,
    CellClass,
    CellContent,
    Command,
    Extend,
    class_of_body,
    decode_content,
    encode_content,
    encode_extend,
    layered_bytes,
)

Effects = tuple[Effect, ...]
Entropy = Callable[[int], bytes]
_DESTROY: Final = DestroyForward()


class Hop(NamedTuple):
    """A node of the circuit as its descriptor names it."""

    node_id: NodeId
    onion_key: bytes


class ClientEnd:
    """One circuit. `first_request` goes to the guard as the circuit request of hop 1."""

    def __init__(self, hops: Sequence[Hop], *, entropy: Entropy) -> None:
        if not 1 <= len(hops) <= MAX_HOPS or len({hop.node_id for hop in hops}) != len(hops):
            raise LocalProtocolError(f"a circuit has 1 to {MAX_HOPS} different hops")
        self.hops = tuple(hops)
        self.phase = Phase.BUILDING
        self._entropy = entropy
        self._layers: list[Layer] = []
        self._handshake: ClientHandshake = self._start(1)
        self.first_request = self._handshake.request

    @property
    def has_guard(self) -> bool:
        """Whether the guard has answered."""
        return bool(self._layers)

    @property
    def asked_hop(self) -> int:
        """The number of the hop that is to answer next, while the circuit is built."""
        return min(len(self._layers) + 1, len(self.hops))

    def guard_answered(self, answer: bytes) -> Effects:
        """The guard answered the first circuit request."""
        if not self._is_legal(Input.CREATED):
            return self._fail()
        return self._answered(answer) if self.phase is Phase.BUILDING and not self._layers else self._fail()

    def received(self, body: bytes) -> Effects:
        """A cell came from the guard."""
        if self.phase is Phase.CLOSED:
            return ()
        if not self._is_legal(Input.BACKWARD_CELL) or not self._layers:
            return self._fail()
        try:
            content = self._peel(body)
        except RestanteError:
            return self._fail()
        if self.phase is Phase.READY:
            return (Deliver(content, class_of_body(body)),)
        return self._answered(content.data) if content.command is Command.EXTENDED else self._fail()

    def send(self, content: CellContent, cell_class: CellClass) -> Effects:
        """Send a command to the exit."""
        if not self._is_legal(Input.SEND):
            raise LocalProtocolError(f"nothing can be sent while the circuit is {self.phase}")
        return () if self.phase is Phase.CLOSED else (SendForward(self._wrap(content, cell_class)),)

    def destroyed(self) -> Effects:
        """The guard sent DESTROY, or its connection is gone."""
        if self.phase is Phase.CLOSED:
            return ()
        failed = self.asked_hop if self.phase is Phase.BUILDING else None
        self.phase = Phase.CLOSED
        return (Ended(failed),)

    def close(self) -> Effects:
        """The client no longer needs the circuit."""
        if self.phase is Phase.CLOSED:
            return ()
        self.phase = Phase.CLOSED
        return _DESTROY, Ended()

    def _answered(self, answer: bytes) -> Effects:
        """A hop answered its circuit request: go on with the next one, or the circuit is built."""
        try:
            self._layers.append(finish_handshake(self._handshake, answer))
        except RestanteError:
            return self._fail()
        if len(self._layers) == len(self.hops):
            self.phase = Phase.READY
            return (Built(),)
        self._handshake = self._start(len(self._layers) + 1)
        extend = Extend(self.hops[len(self._layers)].node_id, self._handshake.request)
        return (SendForward(self._wrap(CellContent(Command.EXTEND, 0, encode_extend(extend)), CellClass.SMALL)),)

    def _start(self, number: int) -> ClientHandshake:
        hop = self.hops[number - 1]
        return start_handshake(hop.node_id, hop.onion_key, hop=number, entropy=self._entropy(CLIENT_ENTROPY_BYTES))

    def _wrap(self, content: CellContent, cell_class: CellClass) -> bytes:
        body = encode_content(content, size_bytes=layered_bytes(cell_class, len(self._layers) + 1))
        for layer in reversed(self._layers):
            body = layer.encrypt_forward(body, cell_class)
        return body

    def _peel(self, body: bytes) -> CellContent:
        cell_class = class_of_body(body)
        for layer in self._layers:
            body = layer.decrypt_backward(body[: layered_bytes(cell_class, layer.hop)], cell_class)
        return decode_content(body)

    def _fail(self) -> Effects:
        """A hop broke the protocol. Which one altered a cell can't be told; while building, the next one is named."""
        if self.phase is Phase.CLOSED:
            return ()
        failed = self.asked_hop
        self.phase = Phase.CLOSED
        return _DESTROY, Ended(failed)

    def _is_legal(self, happened: Input) -> bool:
        return happened in CLIENT_TABLE[self.phase]
