"""A token bucket: so many tokens a second, at most a burst of them. The time is an argument, in seconds."""

import math


class TokenBucket:
    __slots__ = ("_at_s", "_rate", "_tokens", "burst")

    def __init__(self, *, per_s: float, burst: float, now_s: float) -> None:
        self._rate = per_s
        self.burst = burst
        self._tokens = burst
        self._at_s = now_s

    def take(self, count: float, now_s: float) -> bool:
        """Use `count` tokens if there are as many; return whether there were."""
        self._refill(now_s)
        if self._tokens < count:
            return False
        self._tokens -= count
        return True

    def spend(self, count: float, now_s: float) -> None:
        """Use `count` tokens, even if that leaves a debt."""
        self._refill(now_s)
        self._tokens -= count

    def empty(self, now_s: float) -> None:
        """Use all tokens that are left."""
        self._refill(now_s)
        self._tokens = min(self._tokens, 0.0)

    def has(self, count: float, now_s: float) -> bool:
        self._refill(now_s)
        return self._tokens >= count

    def wait_ms(self, count: float) -> int:
        """Return how long it takes until there are `count` tokens."""
        return max(1, math.ceil((min(count, self.burst) - self._tokens) / self._rate * 1_000))

    def _refill(self, now_s: float) -> None:
        if now_s > self._at_s:
            self._tokens = min(self._tokens + (now_s - self._at_s) * self._rate, self.burst)
            self._at_s = now_s
