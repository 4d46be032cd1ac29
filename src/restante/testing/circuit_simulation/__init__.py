"""People who write to each other through simulated circuits, over the real machines: seeded, without tasks or sockets.

`CircuitSimulation(settings, seed).run()` gives a `CircuitResult`. The same seed gives the same trace. Real are the
ends of circuits with their handshakes and cells, streams, pool, guards, paths, build time-outs, write quorum, reading,
buckets, replication and retry. Not simulated are sessions, receipts, signatures of storage receipts, and the handshake
of inner connections.
"""

from restante.testing.circuit_simulation.simulation import LINKS, CircuitResult, CircuitSettings, CircuitSimulation

__all__ = ["LINKS", "CircuitResult", "CircuitSettings", "CircuitSimulation"]
