"""A neighbour that marks what ends a circuit: behind the next honest hop every DESTROY is the same (NETWORK 6, test 5).

What a hop sends on is compared byte by byte, with the same randomness in each run. What remains is the moment: a guard
can end a circuit and look which one ends at the exit (docs/security.md).
"""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from restante.core.circuit.cell_queues import CellBudget
from restante.core.circuit.table import Phase
from restante.crypto.identity import Identity
from restante.crypto.onion import CLIENT_ENTROPY_BYTES, onion_public_key, start_handshake
from restante.node.circuits.family import CircuitFamily, CircuitPeer
from restante.node.circuits.hop_circuit import HopCircuit
from restante.node.frame_family import Peer
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.connection_limits import RelayLimits
from restante.runtime.transport.cell_link import Side
from restante.runtime.transport.circuit_connection import CircuitConnection
from restante.testing.deterministic import SeededEntropy
from restante.wire.circuit.cells import BODY_BYTES, DIALLER_BIT, CellClass
from restante.wire.circuit.frames import CREATE_BYTES, CircuitFrameType, Create, encode_create
from restante.wire.frames.codec import RawFrame, frame_head
from restante.wire.inbox_keys import node_id_of
from support.spec.clauses import clause
from support.system.wait_until import until_true

HOST, SECRET = Identity(b"h" * 32), b"s" * 32
SMALL = BODY_BYTES[CellClass.SMALL]
BODIES = {
    "nothing": b"",
    "zeros": bytes(SMALL),
    "a mark at each place": b"\x5a" * SMALL,
    "the other class": b"\xa5" * BODY_BYTES[CellClass.LARGE],
    "a reason": b"\x02because the guard said so",
}
NUMBERS = (DIALLER_BIT, DIALLER_BIT + 7, 0xFFFF_FFFF)


class Recorded(SeededEntropy):
    """Randomness that is the same in each run, and what was drawn of it."""

    def __init__(self) -> None:
        super().__init__(1)
        self.drawn: list[bytes] = []

    def draw(self, size: int) -> bytes:
        self.drawn.append(super().draw(size))
        return self.drawn[-1]


class NextHop(CircuitConnection):
    """The connection of a hop to the next one. It records what would be sent there."""

    sent: list[bytes]

    def send(self, raw: bytes) -> None:
        self.sent.append(raw)


class Hop:
    """An honest hop with one circuit: `before` is what its previous hop sees, `after` what the next one does."""

    def __init__(self, number: int, hop: int) -> None:
        self.number = number
        self.entropy = Recorded()
        self.family = CircuitFamily(
            HOST,
            lambda _node: None,
            lambda: {onion_public_key(SECRET): SECRET},
            entropy=self.entropy,
            circuit_limits=CircuitLimits(),
            limits=RelayLimits(),
        )
        self.before: list[bytes] = []
        peer = SimpleNamespace(node_key=None, source=b"net", can_write=True, send=self.before.append)
        self.previous: CircuitPeer = self.family.connect(cast("Peer", peer))
        self.next = NextHop(HOST.node_key, limits=RelayLimits()).use(CellBudget[Side](1_000_000), self.entropy)
        self.next.sent = []
        dice = SeededEntropy(2)
        request = start_handshake(
            node_id_of(HOST.node_key), onion_public_key(SECRET), hop=hop, entropy=dice.draw(CLIENT_ENTROPY_BYTES)
        ).request
        self.create = encode_create(number, Create(hop, request), dice.draw)[-SMALL:]

    async def extend(self, phase: Phase) -> HopCircuit:
        """Make the circuit, and its way to the next hop."""
        self.previous.handle([RawFrame(CircuitFrameType.CREATE, self.number, self.create)], now_s=0.0)
        await until_true(lambda: self.family.circuits)
        [circuit] = self.family.circuits
        self.next._users[DIALLER_BIT] = circuit
        circuit._next = self.next, DIALLER_BIT
        circuit._end.phase = phase
        await asyncio.sleep(0)
        self.before.clear()
        return circuit


Act = Callable[[Hop, HopCircuit], None]


def destroy(body: bytes) -> Act:
    return lambda hop, _: hop.previous.handle([RawFrame(CircuitFrameType.DESTROY, hop.number, body)], now_s=0.0)


def destroy_backward(body: bytes) -> Act:
    return lambda hop, _: hop.next._handle([RawFrame(CircuitFrameType.DESTROY, DIALLER_BIT, body)])


def cell(body: bytes) -> Act:
    return lambda hop, _: hop.previous.handle([RawFrame(CircuitFrameType.CELL, hop.number, body)], now_s=0.0)


def create_again(body: bytes) -> Act:
    """The rest of a CREATE behind the request may be anything."""

    def act(hop: Hop, _circuit: HopCircuit) -> None:
        create = (hop.create[: 1 + CREATE_BYTES] + body).ljust(SMALL, b"\0")[:SMALL]
        hop.previous.handle([RawFrame(CircuitFrameType.CREATE, hop.number, create)], now_s=0.0)

    return act


FORWARD: dict[str, Callable[[bytes], Act]] = {
    "DESTROY": destroy,
    "a cell": cell,
    "a second CREATE": create_again,
    "a lost connection": lambda _: lambda hop, _circuit: hop.previous.lost(),
    "the hop itself": lambda _: lambda _hop, circuit: circuit.close(),
}
BACKWARD: dict[str, Callable[[bytes], Act]] = {
    "DESTROY": destroy_backward,
    "a lost connection": lambda _: lambda hop, _circuit: hop.next.on_lost(),
}


async def ended_by(act: Act, number: int, *, hop: int, phase: Phase) -> Hop:
    made = Hop(number, hop)
    circuit = await made.extend(phase)
    act(made, circuit)
    await asyncio.sleep(0)
    assert not made.family.circuits
    await made.family.stop()
    return made


def body_of(sent: list[bytes], number: int) -> bytes:
    """Return what follows the head of the only frame, which is a DESTROY under this number."""
    [frame] = sent
    head = frame_head(CircuitFrameType.DESTROY, number, SMALL)
    assert frame.startswith(head)
    return frame[len(head) :]


@clause("11.1", "11.5")
@pytest.mark.parametrize("hop", [1, 2])
@pytest.mark.parametrize("phase", [Phase.EXTENDING, Phase.RELAYING])
@pytest.mark.parametrize("how", FORWARD)
async def test_every_end_of_a_circuit_arrives_at_the_next_hop_as_the_same_destroy(
    how: str, phase: Phase, hop: int
) -> None:
    found = set[bytes]()
    for name, body in BODIES.items():
        for number in NUMBERS:
            made = await ended_by(FORWARD[how](body), number, hop=hop, phase=phase)
            found.add(body_of(made.next.sent, DIALLER_BIT))
            assert made.next.sent[0].endswith(made.entropy.drawn[-1]), f"fresh random bytes, after {name}"
            assert len(made.entropy.drawn[-1]) == SMALL
    assert len(found) == 1, "neither the bytes nor the number that the neighbour chose change anything"


@clause("11.1", "11.5")
@pytest.mark.parametrize("phase", [Phase.EXTENDING, Phase.RELAYING])
@pytest.mark.parametrize("how", BACKWARD)
async def test_every_end_of_a_circuit_arrives_at_the_previous_hop_as_the_same_destroy(how: str, phase: Phase) -> None:
    for number in NUMBERS:
        found = set[bytes]()
        for body in BODIES.values():
            made = await ended_by(BACKWARD[how](body), number, hop=2, phase=phase)
            found.add(body_of(made.before, number))
            assert made.before[0].endswith(made.entropy.drawn[-1])
        assert len(found) == 1


@clause("11.1", "11.5")
@pytest.mark.parametrize("name", BODIES)
async def test_an_exit_forgets_a_circuit_whatever_its_destroy_says_and_sends_nothing(name: str) -> None:
    exit_hop = Hop(DIALLER_BIT, 3)
    exit_hop.previous.handle([RawFrame(CircuitFrameType.CREATE, DIALLER_BIT, exit_hop.create)], now_s=0.0)
    await until_true(lambda: exit_hop.family.circuits and exit_hop.before)
    exit_hop.before.clear()
    destroy(BODIES[name])(exit_hop, next(iter(exit_hop.family.circuits)))
    await asyncio.sleep(0)
    assert not exit_hop.family.circuits
    assert exit_hop.before == exit_hop.next.sent == []
    await exit_hop.family.stop()
