"""How an exit divides what it may store at a node among its circuits (SPEC 6.6).

A storage node limits an exit as one source. With each answer it says how much the exit may still store: in all, and
under the key of that put. From then on no circuit gets more than its part, so that one can't use up what the others
need. A node that limits nothing says nothing. All of it is memory that dies with the circuits.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from restante.model.ids import InboxKey, NodeId
from restante.wire.frames.mesh_storage import UNLIMITED, MeshRoom

LEAST_PARTS: Final = 10
"""A circuit gets at most a tenth, also while there are fewer: what it leaves is for circuits that come later."""
MAX_DIVIDED: Final = 4_096
"""Nodes and keys whose room is divided at the same time. Beyond that the ones unheard of longest are forgotten."""

_Pool = NodeId | tuple[NodeId, InboxKey]
"""What is divided: the room of the exit at a node, or that under one key there."""


@dataclass(slots=True)
class _Used:
    """What one circuit took since the node limits, in bytes."""

    claimed: int = 0
    """With the puts that are not answered yet."""
    stored: int = 0


@dataclass(slots=True, eq=False)
class _Division:
    room: int = 0
    """What the node said last that the exit may still store."""
    stored: int = 0
    """What the circuits that are left have stored since the node limits."""
    by_circuit: dict[Hashable, _Used] = field(default_factory=dict)

    def allows(self, circuit: Hashable, size_bytes: int, parts: int) -> bool:
        used = self.by_circuit.get(circuit)
        if used is None or not used.claimed:
            return True  # the first put of a circuit: the node says whether it fits
        return (used.claimed + size_bytes) * parts <= self.room + self.stored

    def claim(self, circuit: Hashable, size_bytes: int) -> None:
        self.by_circuit.setdefault(circuit, _Used()).claimed += size_bytes

    def settle(self, circuit: Hashable, size_bytes: int, *, is_stored: bool) -> None:
        used = self.by_circuit.get(circuit)
        if used is None:
            return  # the circuit ended meanwhile
        if is_stored:
            used.stored += size_bytes
            self.stored += size_bytes
        else:
            used.claimed -= size_bytes

    def forget(self, circuit: Hashable) -> None:
        used = self.by_circuit.pop(circuit, None)
        if used is not None:
            self.stored -= used.stored


class Claim(NamedTuple):
    """One put that waits for its answer, and the divisions in which it counts already."""

    circuit: Hashable
    node: NodeId
    key: InboxKey
    size_bytes: int
    counted: tuple[_Division, ...]


class ExitShares:
    """The circuits of one exit that store. A circuit is an object that is equal to itself only."""

    def __init__(self) -> None:
        self._circuits: set[Hashable] = set()
        self._divisions: dict[_Pool, _Division] = {}

    def claim(self, circuit: Hashable, node: NodeId, key: InboxKey, size_bytes: int) -> Claim | None:
        """Return what `answered` needs, or None if the circuit has had its part of what this node gives the exit."""
        self._circuits.add(circuit)
        parts = max(LEAST_PARTS, len(self._circuits))
        counted = tuple(self._divisions[pool] for pool in (node, (node, key)) if pool in self._divisions)
        if not all(each.allows(circuit, size_bytes, parts) for each in counted):
            return None
        for each in counted:
            each.claim(circuit, size_bytes)
        return Claim(circuit, node, key, size_bytes, counted)

    def answered(self, claim: Claim, room: MeshRoom | None, *, is_stored: bool) -> None:
        """The node has answered a put, with the room that it leaves the exit; None: it limits nothing."""
        node_left, key_left = (UNLIMITED, UNLIMITED) if room is None else (room.node_bytes, room.key_bytes)
        self._hear(claim.node, node_left, claim)
        self._hear((claim.node, claim.key), key_left, claim)
        self._settle(claim, is_stored=is_stored)

    def unanswered(self, claim: Claim) -> None:
        """The node did not answer: nothing is known of its room, and the put counts as not stored."""
        self._settle(claim, is_stored=False)

    def forget(self, circuit: Hashable) -> None:
        """The circuit has ended. What it stored stays at the nodes, which count it in what they leave the exit."""
        if circuit in self._circuits:
            self._circuits.discard(circuit)
            for division in self._divisions.values():
                division.forget(circuit)

    def _hear(self, pool: _Pool, left_bytes: int, claim: Claim) -> None:
        division = self._divisions.pop(pool, None)
        if left_bytes == UNLIMITED:
            return
        if division is None:
            division = _Division()
        division.room = left_bytes
        self._divisions[pool] = division
        if division not in claim.counted and claim.circuit in self._circuits:
            division.claim(claim.circuit, claim.size_bytes)  # the node began to limit while this put was under way
        if len(self._divisions) > MAX_DIVIDED:
            del self._divisions[next(iter(self._divisions))]

    def _settle(self, claim: Claim, *, is_stored: bool) -> None:
        for pool in (claim.node, (claim.node, claim.key)):
            division = self._divisions.get(pool)
            if division is not None:
                division.settle(claim.circuit, claim.size_bytes, is_stored=is_stored)
