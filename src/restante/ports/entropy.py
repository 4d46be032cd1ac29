"""The host's source of randomness."""

from typing import Protocol


class Entropy(Protocol):
    def draw(self, size: int) -> bytes:
        """Return `size` unpredictable bytes."""
        ...

    def dice(self) -> float:
        """Return a uniform random number from [-1, 1], for jitter."""
        ...
