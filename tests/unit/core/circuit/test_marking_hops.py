"""A hop that marks every byte it may alter: no mark passes the honest hop behind it (NETWORK 6, test 5).

What it may do with DESTROY is in `tests/unit/node/test_marked_destroy.py`: only the moment itself remains.
"""

import os
from collections.abc import Iterator

import pytest

from restante.core.circuit.effects import DestroyBackward, DestroyForward, Ended, SendBackward, SendForward
from restante.core.circuit.hop_end import HopEnd
from restante.core.circuit.table import Phase
from restante.wire.circuit.cells import BODY_BYTES, CellClass, CellContent, Command, layered_bytes
from support.circuit.line import Line
from support.spec.clauses import clause

DATA = CellContent(Command.DATA, 7, b"what client and exit exchange")
GENERIC_END = (DestroyBackward(), DestroyForward(), Ended())


class Marked:
    """A circuit whose middle is honest. `fill` is what it drew for the bytes behind its layer, at each cell."""

    def __init__(self, cell_class: CellClass) -> None:
        self.cell_class = cell_class
        self.line = Line()
        self.line.build()
        self.guard, self.middle, self.exit = (self.line.hops[number] for number in (1, 2, 3))
        self.fill = b""
        self.middle._random = self._draw

    def _draw(self, size: int) -> bytes:
        self.fill = os.urandom(size)
        return self.fill

    def from_guard(self) -> bytes:
        [sent] = self.line.client.send(DATA, self.cell_class)
        assert isinstance(sent, SendForward)
        return forwarded(self.guard, sent.body)

    def from_exit(self) -> bytes:
        [sent] = self.exit.send(DATA, self.cell_class)
        assert isinstance(sent, SendBackward)
        return sent.body


def forwarded(hop: HopEnd, body: bytes) -> bytes:
    [effect] = hop.forward_cell(body)
    assert isinstance(effect, SendForward)
    return effect.body


def marks(body: bytes, places: range) -> Iterator[bytes]:
    """Yield the body with another byte at each of the places."""
    for at in places:
        yield body[:at] + bytes([body[at] ^ 0x5A]) + body[at + 1 :]


@clause("11.1")
@pytest.mark.parametrize("cell_class", CellClass)
def test_a_guards_mark_inside_the_layers_ends_the_circuit_in_one_way_at_every_position(cell_class: CellClass) -> None:
    circuit = Marked(cell_class)
    cell = circuit.from_guard()
    for marked in marks(cell, range(layered_bytes(cell_class, 2))):
        assert circuit.middle.forward_cell(marked) == GENERIC_END
        circuit.middle.phase = Phase.RELAYING  # the same circuit again, for the next position
    assert forwarded(circuit.middle, cell), "what failed has moved no counter"


@clause("11.1")
@pytest.mark.parametrize("cell_class", CellClass)
def test_a_guards_mark_behind_the_layers_is_replaced_at_every_position(cell_class: CellClass) -> None:
    circuit = Marked(cell_class)
    behind, at_exit = layered_bytes(cell_class, 2), layered_bytes(cell_class, 3)
    for at in range(behind, BODY_BYTES[cell_class]):
        [marked] = marks(circuit.from_guard(), range(at, at + 1))
        passed_on = forwarded(circuit.middle, marked)
        assert passed_on[at_exit:] == circuit.fill, "fresh random bytes, all of them"
        circuit.line.run(3, circuit.exit.forward_cell(passed_on))
        assert circuit.line.delivered.pop() == (3, DATA), "and the layers are as the client made them"


@clause("11.1")
@pytest.mark.parametrize("cell_class", CellClass)
def test_an_exits_mark_behind_its_layer_does_not_reach_the_guard(cell_class: CellClass) -> None:
    circuit = Marked(cell_class)
    behind = layered_bytes(cell_class, 3)
    for at in range(behind, BODY_BYTES[cell_class]):
        [marked] = marks(circuit.from_exit(), range(at, at + 1))
        [to_guard] = circuit.middle.backward_cell(marked)
        assert isinstance(to_guard, SendBackward)
        assert to_guard.body[layered_bytes(cell_class, 2) :] == circuit.fill
        circuit.line.run(1, circuit.guard.backward_cell(to_guard.body))
        assert circuit.line.delivered.pop() == (0, DATA)


@clause("11.1")
@pytest.mark.parametrize("cell_class", CellClass)
def test_a_cell_of_the_other_class_ends_the_circuit(cell_class: CellClass) -> None:
    circuit = Marked(cell_class)
    other = next(each for each in CellClass if each is not cell_class)
    resized = circuit.from_guard()[: BODY_BYTES[other]].ljust(BODY_BYTES[other], b"\0")
    assert circuit.middle.forward_cell(resized) == GENERIC_END
