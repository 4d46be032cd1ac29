"""What all parts of a simulation share: the engine, the nodes, the directory, and who may hold which key."""

from dataclasses import dataclass, field
from typing import Protocol

from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.placement import PlacementIndex
from restante.testing.mesh_simulation.engine import Engine
from restante.testing.mesh_simulation.node import SimulatedNode
from restante.testing.mesh_simulation.values import SimulationResult


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

    receipts: dict[tuple[int, PayloadHash], int] = field(default_factory=dict)
    """When each node signed a storage receipt for a blob."""

    def view_of(self, node: SimulatedNode) -> PlacementIndex:
        return self.directory.index(node.side, lag_ms=self.lags_ms[node.node_id])

    def stored(self, key: InboxKey, bucket: int, node: SimulatedNode, payload_hash: PayloadHash) -> None:
        self.keys[key] = bucket
        self.receipts.setdefault((node.number, payload_hash), self.engine.now_ms)
        self.engine.note("stored", node.number)
