"""A clock that moves only when the test moves it, and seeded randomness."""

import random
from dataclasses import dataclass


@dataclass(slots=True)
class FakeClock:
    at_ms: int = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def advance(self, by_ms: int) -> None:
        self.at_ms += by_ms


class SeededEntropy:
    """Reproducible randomness. Never use it for real keys."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible on purpose

    def draw(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def dice(self) -> float:
        return self._random.uniform(-1.0, 1.0)
