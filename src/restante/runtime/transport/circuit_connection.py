"""A connection for circuits: a client's to its guard, or a hop's to the next one. It carries frames of circuits only.

The connection numbers circuits and hands each frame to the circuit it belongs to. Many circuits share it; their cells
leave in turns (`runtime.transport.cell_link`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol, Self

from restante.core.circuit.cell_queues import CellBudget
from restante.crypto.identity import Identity
from restante.model.ids import NodeKey
from restante.policy.connection_limits import RelayLimits
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.runtime.transport.cell_link import CellLink, Side
from restante.runtime.transport.outgoing_connection import OutgoingConnection
from restante.wire.circuit.cells import DIALLER_BIT
from restante.wire.circuit.frames import (
    TO_DIALLER,
    CircuitFrameType,
    Create,
    decode_created,
    encode_circuit_frame,
    encode_create,
    encode_destroy,
)
from restante.wire.field_checks import MAX_U32
from restante.wire.frames import codec
from restante.wire.frames.mesh import encode_mesh_frame
from restante.wire.frames.mesh_directory import Authenticate, authenticate_to_sign

_FRAMES: Final = dict.fromkeys(TO_DIALLER, 0)


class CircuitUser(Side, Protocol):
    """One circuit on this connection, seen from the dialling end."""

    def on_created(self, answer: bytes) -> None: ...

    def on_cell(self, body: bytes) -> None: ...

    def on_destroyed(self) -> None:
        """DESTROY came, or the connection is gone."""
        ...


class CircuitConnection(OutgoingConnection[None]):
    """Made by `connect(host, port, node=KEY)`; then call `use` once."""

    def __init__(self, node: NodeKey, *, limits: RelayLimits) -> None:
        super().__init__(node, _FRAMES, limits=limits)
        self._users: dict[int, CircuitUser] = {}
        self._last = DIALLER_BIT - 1
        self._cells: CellLink
        self._draw: Callable[[int], bytes]

    @classmethod
    def _to(cls, node: NodeKey, limits: RelayLimits) -> Self:
        return cls(node, limits=limits)

    def use(self, budget: CellBudget[Side], entropy: Entropy) -> Self:
        """Give the connection the memory for cells that wait, and its randomness."""
        self._cells = CellLink(self.send, lambda: self.can_write, budget)
        self._draw = entropy.draw
        return self

    def authenticate(self, identity: Identity) -> None:
        """Prove the own node key: a hop allows more circuits to another node than to a client."""
        to_sign = authenticate_to_sign(
            challenge=self.hello.challenge, connection=self.binding, server=self.node, dialler=identity.node_key
        )
        self.send(encode_mesh_frame(Authenticate(node_key=identity.node_key, signature=identity.sign(to_sign)), 0))

    async def is_alive(self, *, within_s: float) -> bool:
        """Send PING and return whether anything came within this time."""
        asked_s = self._loop.time()
        self.send(codec.encode_frame(codec.Ping(), 0))
        await asyncio.sleep(within_s)
        return self._link.heard_s > asked_s

    @property
    def circuits(self) -> int:
        return len(self._users)

    def create(self, user: CircuitUser, create: Create) -> int:
        """Send a circuit request and return the id of the new circuit on this connection."""
        if not self.is_ready:
            raise ConnectionLost
        while True:
            self._last = self._last + 1 if self._last < MAX_U32 else DIALLER_BIT
            if self._last not in self._users:
                break
        self._users[self._last] = user
        self._cells.send(user, encode_create(self._last, create, self._draw))
        return self._last

    def send_cell(self, user: CircuitUser, circuit: int, body: bytes) -> None:
        self._cells.send(user, encode_circuit_frame(CircuitFrameType.CELL, circuit, body))

    def destroy(self, user: CircuitUser, circuit: int) -> None:
        """Send DESTROY and forget the circuit, with what it still had to send."""
        if self._users.pop(circuit, None) is not None:
            self._cells.forget(user)
            self._cells.send(user, encode_destroy(circuit, self._draw))

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cells.window_opened()

    def on_lost(self) -> None:
        super().on_lost()
        users, self._users = self._users, {}
        for user in users.values():
            self._cells.forget(user)
            user.on_destroyed()

    def _handle(self, frames: Sequence[codec.RawFrame]) -> None:
        for frame in frames:
            user = self._users.get(frame.request)
            if user is None:
                continue  # destroyed here while the frame was under way
            if frame.type == CircuitFrameType.CELL:
                user.on_cell(frame.body)
            elif frame.type == CircuitFrameType.CREATED:
                user.on_created(decode_created(frame.body))
            else:
                del self._users[frame.request]
                self._cells.forget(user)
                user.on_destroyed()

    def _answer(self, waiting: None, frame: codec.Frame) -> None:
        """Circuits have no requests: nothing waits for PONG or REFUSED."""

    def _fail(self, waiting: None, error: AttemptFailed) -> None:
        """As `_answer`."""
