"""What all parts of a simulation share: the engine, the nodes, the directory, and who may hold which key."""

import hashlib
from dataclasses import dataclass, field
from typing import Final, Protocol

from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.placement import PlacementIndex
from restante.testing.mesh_simulation.engine import Engine
from restante.testing.mesh_simulation.node import SimulatedNode
from restante.testing.mesh_simulation.values import SimulationResult

_ANYWHERE: Final = bytes(32)


class Directory(Protocol):
    def index(self, side: int, *, lag_ms: int) -> PlacementIndex: ...


@dataclass(slots=True, kw_only=True)
class NetworkMap:
    engine: Engine
    directory: Directory
    result: SimulationResult
    nodes: dict[NodeId, SimulatedNode] = field(default_factory=dict)
    lags_ms: dict[NodeId, int] = field(default_factory=dict)
    keys: dict[InboxKey, int] = field(default_factory=dict)
    """Every key under which something was stored, with its bucket."""

    directory_gap: float = 0.0
    receipts: dict[tuple[int, InboxKey, PayloadHash], int] = field(default_factory=dict)
    """When each node signed a storage receipt for a blob under a key. A retry may store it under another key."""

    def client_index(self, side: int, *, lag_ms: int, client: str) -> PlacementIndex:
        """Return the storage nodes that this sender or recipient knows."""
        whole = self.directory.index(side, lag_ms=lag_ms)
        if not self.directory_gap:
            return whole
        known = (each for each in whole.by_distance(_ANYWHERE) if self._has(client, each.node_id))
        return PlacementIndex(known, now_ms=0)

    def _has(self, client: str, node: NodeId) -> bool:
        drawn = hashlib.sha256(client.encode() + node).digest()[0] / 256
        return drawn >= self.directory_gap

    def view_of(self, node: SimulatedNode) -> PlacementIndex:
        return self.directory.index(node.side, lag_ms=self.lags_ms[node.node_id])

    def stored(self, key: InboxKey, bucket: int, node: SimulatedNode, payload_hash: PayloadHash) -> None:
        self.keys[key] = bucket
        self.receipts.setdefault((node.number, key, payload_hash), self.engine.now_ms)
        self.engine.note("stored", node.number)

    def copied(self, key: InboxKey, node: SimulatedNode, payload_hash: PayloadHash) -> None:
        """A node took a blob from another one."""
