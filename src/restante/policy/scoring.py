"""Score nodes by reliability, so that better ones are asked first (SPEC 7.3).

The scores come from measurements that are arguments. Equal numbers give equal results on every machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from restante.model.errors import OutOfRange
from restante.model.ids import NODE_ID_BYTES, NodeId, exactly

REPLICATION: Final = 3

UPTIME_WEIGHT: Final = 0.4
BANDWIDTH_WEIGHT: Final = 0.3
LATENCY_WEIGHT: Final = 0.3

MIN_LATENCY_MS: Final = 1.0
"""Lower latencies count as this. A millisecond clock measures 0 on one machine, and the score divides by the
latency."""
MAX_LATENCY_MS: Final = 3_600_000.0
MAX_BANDWIDTH_BPS: Final = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node with its measurements. Impossible numbers (negative, infinite, not a number) are refused."""

    node_id: NodeId
    uptime: float
    bandwidth_bps: int
    latency_ms: float

    def __post_init__(self) -> None:
        exactly(self.node_id, NODE_ID_BYTES, "node id")
        for key, value, high in (
            ("uptime", self.uptime, 1),
            ("bandwidth_bps", self.bandwidth_bps, MAX_BANDWIDTH_BPS),
            ("latency_ms", self.latency_ms, MAX_LATENCY_MS),
        ):
            if not 0 <= value <= high:
                raise OutOfRange(f"candidate.{key}", value, low=0, high=high)


def score(candidate: Candidate, among: Sequence[Candidate]) -> float:
    """Return the candidate's score from 0 to 1, relative to the candidates it is chosen `among`."""
    compared = (candidate, *among)
    most_bps = max(other.bandwidth_bps for other in compared)
    fastest_ms = min(_latency_ms(other) for other in compared)
    # If all bandwidths are 0, no candidate gets points for bandwidth.
    bandwidth = candidate.bandwidth_bps / most_bps if most_bps > 0 else 0.0
    speed = fastest_ms / _latency_ms(candidate)
    return UPTIME_WEIGHT * candidate.uptime + BANDWIDTH_WEIGHT * bandwidth + LATENCY_WEIGHT * speed


def _latency_ms(candidate: Candidate) -> float:
    return max(candidate.latency_ms, MIN_LATENCY_MS)
