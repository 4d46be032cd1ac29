"""People who write to each other through simulated circuits, over the real machines: seeded, without tasks or sockets.

`CircuitSimulation(settings, seed).run()` gives a `CircuitResult`. The same seed gives the same trace. Real are the
ends of circuits with their handshakes and cells, streams, fan-out, pool, guards, paths, learned time-outs, silence,
write quorum, reading and polling, buckets, replication, retry, and the rules of receiving with sequence numbers and
fingerprints. Not simulated are keys of sessions, receipts, and signatures of storage receipts.
"""

from restante.testing.circuit_simulation.simulation import LINKS, CircuitResult, CircuitSettings, CircuitSimulation

__all__ = ["LINKS", "CircuitResult", "CircuitSettings", "CircuitSimulation"]
