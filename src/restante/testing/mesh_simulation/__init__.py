"""A simulated mesh over the real machines: a heap of events, seeded, without tasks or sockets.

`MeshSimulation(settings, seed).run()` gives a `SimulationResult`. The same seed gives the same trace.
"""

from restante.testing.mesh_simulation.routing import RoutingResult, simulate_lookups
from restante.testing.mesh_simulation.simulation import MeshSimulation
from restante.testing.mesh_simulation.values import Lie, MeshSettings, Partition, SimulationResult

__all__ = [
    "Lie",
    "MeshSettings",
    "MeshSimulation",
    "Partition",
    "RoutingResult",
    "SimulationResult",
    "simulate_lookups",
]
