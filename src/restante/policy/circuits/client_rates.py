"""How fast a client may send through circuits (SPEC 11.2). What is over the limit gets E007 with retry-after, locally.

Message size or number on one circuit tells its hops more the more of it there is, and a burst of one client must not
look different from the traffic of many.
"""

from typing import Final

from restante.policy.circuits.limits import MESSAGES_PER_CIRCUIT, CircuitLimits
from restante.policy.circuits.token_bucket import TokenBucket

_MINUTE_S: Final = 60.0


class ClientRates:
    """The buckets of one client. The further STOREs of one message count once: the host calls `take` once for it."""

    def __init__(self, limits: CircuitLimits, *, now_s: float) -> None:
        per_minute = limits.messages_per_minute
        self._messages = TokenBucket(per_s=per_minute / _MINUTE_S, burst=per_minute, now_s=now_s)
        self._bytes = TokenBucket(per_s=limits.bytes_per_s, burst=limits.bytes_per_s, now_s=now_s)

    def take(self, size_bytes: int, now_s: float) -> int:
        """Count one message; return 0, or the milliseconds to wait before it may be sent."""
        # A message larger than one second's worth is sent when the bucket is full, and leaves a debt.
        if not self._bytes.has(min(size_bytes, self._bytes.burst), now_s):
            return self._bytes.wait_ms(size_bytes)
        if not self._messages.take(1, now_s):
            return self._messages.wait_ms(1)
        self._bytes.spend(size_bytes, now_s)
        return 0


def circuit_meter(now_s: float) -> TokenBucket:
    """Return the bucket of one circuit: 100 messages a minute."""
    return TokenBucket(per_s=MESSAGES_PER_CIRCUIT / _MINUTE_S, burst=MESSAGES_PER_CIRCUIT, now_s=now_s)
