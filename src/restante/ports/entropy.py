"""Randomness, as the hosts draw it."""

from typing import Protocol


class Entropy(Protocol):
    def draw(self, size: int) -> bytes:
        """`size` unpredictable bytes."""
        ...

    def dice(self) -> float:
        """A number from [-1, 1], uniform: what jitter is made of."""
        ...
