"""Choose the nodes that store a message: the closest to its inbox key, best score first (SPEC 7.3).

The scores come from measurements that are arguments. Equal numbers give equal results on every machine.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, OutOfRange
from restante.model.ids import INBOX_KEY_BYTES, NODE_ID_BYTES, InboxKey, NodeId, exactly

REPLICATION: Final = 3
WRITE_QUORUM: Final = 2
READ_QUORUM: Final = 1
CLOSEST: Final = 5  # the nodes a message may be stored at, and those a recipient asks (SPEC 7.3, 7.4)

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


def distance(node_id: NodeId, key: InboxKey) -> int:
    """Return the XOR distance of Kademlia."""
    return int.from_bytes(node_id, "big") ^ int.from_bytes(key, "big")


def score(candidate: Candidate, among: Sequence[Candidate]) -> float:
    """Return the candidate's score from 0 to 1, relative to the candidates it is chosen `among`."""
    compared = (candidate, *among)
    most_bps = max(other.bandwidth_bps for other in compared)
    fastest_ms = min(_latency_ms(other) for other in compared)
    # If all bandwidths are 0, no candidate gets points for bandwidth.
    bandwidth = candidate.bandwidth_bps / most_bps if most_bps > 0 else 0.0
    speed = fastest_ms / _latency_ms(candidate)
    return UPTIME_WEIGHT * candidate.uptime + BANDWIDTH_WEIGHT * bandwidth + LATENCY_WEIGHT * speed


def choose_storage_nodes(candidates: Iterable[Candidate], key: InboxKey, count: int = REPLICATION) -> list[Candidate]:
    """Return the best `count` of the five nodes closest to `key`, best first, or fewer if there are fewer."""
    exactly(key, INBOX_KEY_BYTES, "inbox key")
    if not 1 <= count <= CLOSEST:
        raise OutOfRange("count of storage nodes", count, low=1, high=CLOSEST)
    by_distance = sorted(candidates, key=lambda candidate: distance(candidate.node_id, key))
    if len({candidate.node_id for candidate in by_distance}) != len(by_distance):
        raise LocalProtocolError("a candidate is listed twice; two replicas on one node are one", code=Code.MALFORMED)
    closest = by_distance[:CLOSEST]
    # sorted() is stable: among equal scores the closer one stays first.
    return sorted(closest, key=lambda candidate: score(candidate, closest), reverse=True)[:count]


def quorum_reached(stored: int) -> bool:
    """Return whether enough replicas are on disk for the message to count as stored; fewer is E004."""
    return stored >= WRITE_QUORUM


def _latency_ms(candidate: Candidate) -> float:
    return max(candidate.latency_ms, MIN_LATENCY_MS)
