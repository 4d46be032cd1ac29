"""What each side of the mesh knows of its nodes at each minute: descriptors spread late and expire late (SPEC 7.1).

Holding a `DescriptorSet` per node would cost a million entries. Since descriptors flood, all nodes of one side know the
same ones a few minutes later; so one list a side and minute is kept, and a reader looks into it with its own lag.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from restante.core.directory.descriptor_set import REISSUE_INTERVAL_MS, VALID_MS
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.mesh.placement import PlacementIndex
from restante.testing.mesh_simulation.engine import Engine
from restante.testing.mesh_simulation.node import SimulatedNode
from restante.testing.mesh_simulation.values import MINUTE_MS

MOST_VERSIONS: Final = 61
"""An hour of versions: no reader is further behind."""


class DirectoryView:
    def __init__(self, engine: Engine, nodes: list[SimulatedNode]) -> None:
        self._engine = engine
        self._nodes = nodes
        self._times: list[int] = []
        self._versions: list[tuple[PlacementIndex, PlacementIndex]] = []
        self._parted_at_ms: int | None = None
        self._last: dict[int, tuple[tuple[NodeId, ...], PlacementIndex]] = {}

    def take(self) -> None:
        """Keep what is valid now, and do so again in a minute."""
        now_ms = self._engine.now_ms
        if self._engine.is_partitioned and self._parted_at_ms is None:
            self._parted_at_ms = now_ms
        if not self._engine.is_partitioned:
            self._parted_at_ms = None
        first = self._index(0, now_ms)
        second = first if self._parted_at_ms is None else self._index(1, now_ms)
        self._times.append(now_ms)
        self._versions.append((first, second))
        del self._times[:-MOST_VERSIONS], self._versions[:-MOST_VERSIONS]
        self._engine.at(now_ms + MINUTE_MS, self.take)

    def index(self, side: int, *, lag_ms: int) -> PlacementIndex:
        """Return the storage nodes that a reader on this side knows."""
        at = bisect_right(self._times, self._engine.now_ms - lag_ms) - 1
        return self._versions[max(at, 0)][side]

    def _index(self, side: int, now_ms: int) -> PlacementIndex:
        """Return the index of what is valid now, the last one if nothing changed."""
        valid = list(self._valid(side, now_ms))
        known = tuple(each.node_id for each in valid)
        last = self._last.get(side)
        if last is None or last[0] != known:
            self._last[side] = known, PlacementIndex(valid, now_ms=0)
        return self._last[side][1]

    def _valid(self, side: int, now_ms: int) -> Iterator[NodeDescriptor]:
        for node in self._nodes:
            heard_until_ms = now_ms if node.is_alive else node.died_at_ms
            if self._parted_at_ms is not None and node.side != side:
                heard_until_ms = min(heard_until_ms, self._parted_at_ms)
            if heard_until_ms < node.joined_at_ms:
                continue
            issues = (heard_until_ms - node.joined_at_ms) // REISSUE_INTERVAL_MS
            if now_ms < node.joined_at_ms + issues * REISSUE_INTERVAL_MS + VALID_MS:
                yield node.descriptor
