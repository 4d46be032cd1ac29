"""A hop's end of a circuit: removes or adds its own layer, passes cells on, and is the exit while no hop follows.

It holds nothing but the layer and the phase, all of which die with the circuit (SPEC 11.5). Bytes behind its plaintext
are replaced by fresh random ones in both directions, so that no byte that a neighbour chose reaches the other side.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

from restante.core.circuit.effects import (
    CreateNext,
    Deliver,
    DestroyBackward,
    DestroyForward,
    Effect,
    Ended,
    SendBackward,
    SendForward,
)
from restante.core.circuit.table import HOP_TABLE, Input, Phase
from restante.crypto.onion import CREATED_BYTES, Layer
from restante.model.errors import LocalProtocolError, RestanteError
from restante.model.ids import NodeId
from restante.wire.circuit.cells import (
    BODY_BYTES,
    MAX_HOPS,
    CellClass,
    CellContent,
    Command,
    class_of_body,
    decode_content,
    decode_extend,
    encode_content,
    layered_bytes,
)

Effects = tuple[Effect, ...]
_BACK: Final = DestroyBackward()
_ONWARD: Final = DestroyForward()
_LAST: Final = Phase.LAST
_RELAYING: Final = Phase.RELAYING


@cache
def _layered(hop: int) -> tuple[int, ...]:
    """Return by class how many bytes of a body the layers of `hop` and all behind it take."""
    return tuple(layered_bytes(each, hop) for each in CellClass)


class HopEnd:
    """One circuit at one node. `random(n)` returns n fresh random bytes."""

    def __init__(self, layer: Layer, *, random: Callable[[int], bytes]) -> None:
        self.phase = Phase.LAST
        self.hop = layer.hop
        self._layer = layer
        self._random = random
        self._own_bytes, self._next_bytes = _layered(layer.hop), _layered(layer.hop + 1)

    def forward_cell(self, body: bytes) -> Effects:
        """A cell came from the client's side."""
        phase = self.phase
        if phase is not _RELAYING and phase is not _LAST:  # else it is legal, by the table
            return () if phase is Phase.CLOSED else self._destroy()
        try:
            cell_class = class_of_body(body)
            inside = self._layer.decrypt_forward(body[: self._own_bytes[cell_class]], cell_class)
            if phase is _RELAYING:
                return (SendForward(inside + self._random(len(body) - len(inside))),)
            return self._obey(decode_content(inside), cell_class)
        except RestanteError:
            return self._destroy()

    def backward_cell(self, body: bytes) -> Effects:
        """A cell came from the next hop."""
        if self.phase is Phase.CLOSED:
            return ()
        if not self._is_legal(Input.BACKWARD_CELL):
            return self._destroy()
        try:
            cell_class = class_of_body(body)
        except RestanteError:
            return self._destroy()
        inside = body[: self._next_bytes[cell_class]]
        return (SendBackward(self._filled(self._layer.encrypt_backward(inside, cell_class), cell_class)),)

    def next_created(self, answer: bytes) -> Effects:
        """The next hop answered: pass its answer on to the client, and relay from now on."""
        if self.phase is Phase.CLOSED:
            return ()
        if not self._is_legal(Input.CREATED) or len(answer) != CREATED_BYTES:
            return self._destroy()
        told = self._to_client(CellContent(Command.EXTENDED, 0, answer), CellClass.SMALL)
        self.phase = Phase.RELAYING
        return (told,)

    def extension_failed(self) -> Effects:
        """The next hop could not be reached or refused: the client is told, and may try another."""
        if self.phase is Phase.CLOSED:
            return ()
        if not self._is_legal(Input.EXTENSION_FAILED):
            return self._destroy()
        self.phase = Phase.LAST
        return (self._to_client(CellContent(Command.FAILED, 0), CellClass.SMALL),)

    def send(self, content: CellContent, cell_class: CellClass) -> Effects:
        """Send a command to the client; only the exit does."""
        if not self._is_legal(Input.SEND):
            raise LocalProtocolError(f"nothing can be sent while the circuit is {self.phase}")
        return () if self.phase is Phase.CLOSED else (self._to_client(content, cell_class),)

    def destroyed(self, *, by_client_side: bool) -> Effects:
        """DESTROY came from one side, or its connection is gone: pass it on to the other."""
        if self.phase is Phase.CLOSED:
            return ()
        has_next = self.phase in {Phase.RELAYING, Phase.EXTENDING}
        self.phase = Phase.CLOSED
        if by_client_side:
            return (_ONWARD, Ended()) if has_next else (Ended(),)
        return _BACK, Ended()

    def close(self) -> Effects:
        """The node ends the circuit: shut-down, idle time, age or a full queue. Both sides get the same DESTROY."""
        return self._destroy()

    def _obey(self, content: CellContent, cell_class: CellClass) -> Effects:
        if content.command is not Command.EXTEND:
            return (Deliver(content, cell_class),)
        if self._layer.hop >= MAX_HOPS:
            return self._destroy()
        extend = decode_extend(content.data)
        self.phase = Phase.EXTENDING
        return (CreateNext(NodeId(extend.node_id), extend.request, self._layer.hop + 1),)

    def _to_client(self, content: CellContent, cell_class: CellClass) -> SendBackward:
        inside = encode_content(content, size_bytes=self._next_bytes[cell_class])
        return SendBackward(self._filled(self._layer.encrypt_backward(inside, cell_class), cell_class))

    def _filled(self, part: bytes, cell_class: CellClass) -> bytes:
        missing = BODY_BYTES[cell_class] - len(part)
        return part + self._random(missing) if missing else part

    def _destroy(self) -> Effects:
        if self.phase is Phase.CLOSED:
            return ()
        has_next = self.phase in {Phase.RELAYING, Phase.EXTENDING}
        self.phase = Phase.CLOSED
        return (_BACK, _ONWARD, Ended()) if has_next else (_BACK, Ended())

    def _is_legal(self, happened: Input) -> bool:
        return happened in HOP_TABLE[self.phase]
