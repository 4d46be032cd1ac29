"""How much of a node CREATE may use (SPEC 11.5): 20 a second a client connection, and a quarter of a core in all.

A handshake costs a hop more than its client, so it is what an attacker floods. Requests wait in turns between sources
(`core.fair_queue`), so that a flood from one network delays that network's circuits only.
"""

from typing import Final

from restante.policy.circuits.token_bucket import TokenBucket

PER_CLIENT_PER_S: Final = 20
OWN_PER_S: Final = 10
"""What a client asks for itself, so that no guard refuses it when builds fail fast."""
PER_NODE_PER_S: Final = 400
"""From another hop: the circuits of many clients come over one connection."""
CORE_SHARE: Final = 0.25
BURST_S: Final = 0.25
MAX_WAITING: Final = 512
MAX_WAITING_PER_SOURCE: Final = 64


def create_meter(*, is_node: bool, now_s: float) -> TokenBucket:
    """Return the bucket of one connection."""
    rate = PER_NODE_PER_S if is_node else PER_CLIENT_PER_S
    return TokenBucket(per_s=rate, burst=rate, now_s=now_s)


def own_meter(now_s: float) -> TokenBucket:
    """Return the bucket of a client's own circuit requests."""
    return TokenBucket(per_s=OWN_PER_S, burst=OWN_PER_S, now_s=now_s)


def core_meter(now_s: float) -> TokenBucket:
    """Return the bucket of the node, in seconds of work."""
    return TokenBucket(per_s=CORE_SHARE, burst=BURST_S, now_s=now_s)
