"""How often a node does what it does by itself in the mesh (SPEC 7.1, 7.9)."""

from dataclasses import dataclass

from restante.model.setting_ranges import check_ranges, ranged
from restante.policy.mesh.repair import PING_INTERVAL_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshIntervals:
    """Directory exchanges, scrubbing and garbage collection keep their proportion to the pings of neighbours."""

    ping_interval_ms: int = ranged(PING_INTERVAL_MS, low=50, high=600_000, unit="ms", clause="7.9")

    def __post_init__(self) -> None:
        check_ranges(self, "mesh")
